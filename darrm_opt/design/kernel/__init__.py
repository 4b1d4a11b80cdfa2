"""Separation kernel: the searches of `darrm_opt.design.separation` in C, compiled at installation if possible."""
