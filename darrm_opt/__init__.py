"""Optimal private majority votes: design, prove and use the noise function of DaRRM."""
