"""Requests and answers as types: names, units, ranges and examples, one module for each subject."""
