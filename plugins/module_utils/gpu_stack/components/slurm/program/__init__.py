"""What Slurm calls on its nodes: the health check, the prolog and the epilog.

A copy lies in /usr/local/lib/gpu-slurm, where root alone can write. Its modules import each other
and the standard library, and nothing else.
"""
