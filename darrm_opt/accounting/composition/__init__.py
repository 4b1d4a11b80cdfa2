"""Composition theorems for (ε, δ)-DP mechanisms: closed forms, the exact optimum, and slow enumeration to test them against."""
