"""Tables by the thousand: every γ of a grid, designed before it is needed, on one machine or on many.

    expression  formulas that link one quantity of a grid to others, such as δ = 1−(1−Δ)^m
    axes        values, lists and ranges, read from plain data
    grid        a grid file: from TOML or JSON to the problems that it stands for
    plan        what is to be done: what is kept already, and batches of what is not, dear ones first
    work        what a worker does with a batch; a generator of events
    claims      who solves what: leases on jobs, so that no two runs solve one key
    executor    what runs batches: one protocol; `processes` of this machine, or a Dask `cluster`
    run         the loop that gives batches out, keeps what comes back and tries again what was lost
    progress    where a run stands, and what came of it

The store is the state: what a run keeps is there for the next one, however the run ended.
"""
