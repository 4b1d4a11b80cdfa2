"""Theorems of He, Wang and Tao on composition, iterative training and generalisation."""
