"""How the code runs: on NumPy or torch, unseen by compilers, within memory, with settings checked once."""
