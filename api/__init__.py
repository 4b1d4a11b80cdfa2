"""The ways in: the command line and HTTP. They translate and stop; the mathematics is `darrm_opt`."""
