"""How fast the engine is, and against what: ``python -m benchmarks`` measures and writes ``benchmarks/results.md``.

`cases` (what is measured, what is wanted) → `measure` (one job in a process of its own; `worker` is that process) →
`run` (all of them, side by side, within a budget) → `judge` (wanted against measured) → `report` (the table).
Nothing here is a test: a slow machine is a row that says "no", not a failure.
"""
