"""Precomputation: design every γ of a grid in advance, on one machine or many.

    axes        values, lists and ranges of a quantity, and formulas that link it to others, such as δ = 1−(1−Δ)^m
    grid        from a grid file in TOML or JSON to its problems
    plan        what is stored already, and batches of the rest, expensive ones first; progress and outcome of a run
    worker      solves a batch, as a generator of events; claims of keys, so that no two runs solve one problem
    executor    the protocol of executors, and `processes` of this machine; a Dask `cluster` is another
    scheduler   hands out batches, stores answers and retries lost work

The store is the only state: the next run continues where this one ended, however it ended.
"""
