"""Privacy loss distributions: composition by convolution, with a bound on rounding."""
