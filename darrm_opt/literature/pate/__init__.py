"""PATE's data-dependent bounds for Gaussian and Laplace votes."""
