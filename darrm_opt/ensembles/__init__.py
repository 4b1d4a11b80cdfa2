"""Other ways to vote: sources of (ε, Δ), aggregators of teachers that are not private, and what they cost."""
