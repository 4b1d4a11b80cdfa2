"""Design of γ_opt: polytope → program → separation → cutting planes → certificate, called by `solver.solve`."""
