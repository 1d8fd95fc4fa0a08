"""What trips the preflight's rules, and its neighbours, by component and part of the host.

A file may have `bare(found)`, too: what the look finds of it on the bare host, which was recorded
before the look knew of it.
"""
