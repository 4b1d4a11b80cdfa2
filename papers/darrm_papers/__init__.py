"""Theorems, tables and experiments of papers, reproduced; nothing else of the product depends on them."""
