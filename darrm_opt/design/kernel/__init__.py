"""Separation kernel: the searches of `darrm_opt.design.separation` compiled, where a compiler was there to build it."""
