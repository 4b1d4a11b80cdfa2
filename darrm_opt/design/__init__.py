"""How γ_opt is found and proved: corners → blossom → worst case → program → certificate → solver."""
