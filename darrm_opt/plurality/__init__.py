"""Votes among any number of classes."""
