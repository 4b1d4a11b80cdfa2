"""Tasks that run in the processes of the pool, and what they are expected to cost."""
