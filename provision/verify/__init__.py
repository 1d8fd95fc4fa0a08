"""The proof: checks of what a GPU stack does on a host, the same in Molecule, demo and real labs.

Ships into every rendered project as `verify/` and needs pytest and testinfra, not `provision`.
"""
