"""How the code runs: on NumPy or torch, outside compiled graphs, in bounded memory, with settings checked once."""
