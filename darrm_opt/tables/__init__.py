"""Tables: the best private release of one vote among any number of classes, of voters that are private or not.

Two geometries, of voters that are not private and of groups of private ones; everything else is one.

    problem, groups    partitions, their cells and edges; counts of groups and their cells
    group_laws         the maps of one voter, multisets of them, and the laws of a group's counts
    corners            the corners of voters among C classes, one of each orbit, and the sweep over all of them
    votes, priors      votes, checked and counted; how they fall
    objective          the utility of a release: `PluralityObjective`, `Truth`, `Worth`
    table              `Table`: release probabilities as doubles, exactly
    certificate        `verify_table`, `certify_table`: proofs over every edge in whole numbers, or over every corner
    edge_program       the linear program of voters that are not private: its cuts, its dual bound, its loop
    corner_program     the same of groups, the program that γ and the tables above are special cases of
    solver             `solve_table`: a program proposes, a proof decides
    record             records, questions and their keys, and the re-proof of what is read
"""
