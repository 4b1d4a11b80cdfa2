"""Precomputation: every γ of a grid, designed before it is needed, on one machine or many.

    axes        values, lists and ranges of a quantity, and formulas that link it to others, such as δ = 1−(1−Δ)^m
    grid        a grid file: from TOML or JSON to the problems that it stands for
    plan        what is stored already, and batches of the rest, expensive ones first; progress and outcome of a run
    worker      solves a batch; a generator of events; leases on keys, so that no two runs solve one
    executor    the protocol of what runs batches: local `processes`, or a Dask `cluster`
    scheduler   the loop that hands out batches, stores answers and retries what was lost

The store is the state: what a run keeps is there for the next one, however the run ended.
"""
