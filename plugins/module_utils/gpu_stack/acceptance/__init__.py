"""What says whether a host's GPUs are fit for work: what they have reported, and what that means.

A driver that loads says little of a card: one that has fallen off the bus under load, or whose
memory has run out of spare rows, comes back with the next boot and fails again.
"""
