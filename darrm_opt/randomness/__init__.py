"""Randomness: one source of uniform bits, and the coins and noise that are drawn from it exactly."""
