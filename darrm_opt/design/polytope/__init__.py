"""Polytope of admissible voters: corners, the constraint over them, and the blossom that evaluates it."""
