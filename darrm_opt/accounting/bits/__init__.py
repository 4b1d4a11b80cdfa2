"""Exact adaptive composition of releases that are single bits.

`region` holds the pairs of probabilities that one bit can show, `recursion` composes them over many releases on the
grid of `backward_step`, and `adversary` bounds the result from below.
"""
