"""What is wrong with a GPU host, why that is believed, and what cures it.

Sent to a host only where the doctor is asked: the ordinary look doesn't pay for it.
"""
