"""Design of γ_opt: constraint → program → separation → cutting planes → certificate, called by `solver.solve`."""
