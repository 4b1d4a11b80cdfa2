"""Integrations: private votes in frameworks that users bring; each imports its framework where it is used.

flower  a strategy for the message API of Flower (`flwr`), by private majorities of signs
"""
