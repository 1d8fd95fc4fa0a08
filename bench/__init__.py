"""How fast `provision` is, as ratios against other ways to reach and assert the same state.

A time of this machine says nothing on another one, and two times taken an hour apart say nothing at
all. So every way is measured in turn with the others, round by round, on the same hosts with the
same ssh, and what is judged and published is the median of the ratios.
"""
