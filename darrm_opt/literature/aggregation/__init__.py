"""Aggregators of teachers' votes: GNMax, SAA and DPBag, their accountants, and the layout of teachers."""
