"""How fast `provision` is, as ratios against other ways to reach and assert the same state.

Times depend on the machine and its load. So all ways are measured in turn, round by round, on the
same hosts with the same ssh, and the medians of the ratios are judged and published.
"""
