"""One file a verb; the function has the verb's name."""
