"""Tables: the best private release of one vote among any number of classes, of voters that are private or not.

problem         `PluralityProblem`; partitions, cells and edges
rule            `PluralityRule`: release probabilities as doubles, exactly
certificate     `verify_rule`, `certify_rule`: proofs in whole numbers over every edge
priors          how votes fall, and the utility of a release
linear_program  the equivariant linear program, its cuts and its dual bound
solver          `solve_plurality`: the cutting-plane loop
votes           votes, checked and counted
groups          `GroupProblem`: Problem 1.1 in general, groups of voters with their own (ε, Δ), any number of classes
corners         the corners of voters among C classes, one of each orbit, and the sweep over all of them
group_table     `GroupTable`, `verify_groups`, `certify_groups`; its record
group_solver    `solve_groups`: the program that γ and the tables above are special cases of
"""
