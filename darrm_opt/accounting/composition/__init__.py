"""Composition theorems for (ε, δ)-DP mechanisms: closed forms, the exact optimum, and enumeration to test them."""
