"""Verbs, one function each; it has the verb's name, with an underscore for a hyphen or a space."""
