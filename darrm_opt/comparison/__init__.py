"""Comparison of γ_opt with other private mechanisms for a majority vote, under equal privacy."""
