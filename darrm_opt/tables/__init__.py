"""Tables: the best private release of one vote among any number of classes, of voters that are not private.

problem         `PluralityProblem`; partitions, cells and edges
rule            `PluralityRule`: release probabilities as doubles, exactly
certificate     `verify_rule`, `certify_rule`: proofs in whole numbers over every edge
priors          how votes fall, and the utility of a release
linear_program  the equivariant linear program, its cuts and its dual bound
solver          `solve_plurality`: the cutting-plane loop
votes           votes, checked and counted
"""
