"""Separation: the worst corner multiset for a given γ, by several searches that prove their bounds."""
