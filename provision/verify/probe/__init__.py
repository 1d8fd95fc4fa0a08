"""Looks at what a host's GPU stack does, in one round trip, as an ordinary user; prints JSON.

It is piped to the host's own python3 (`python3 - PARAMETERS < probe.py`). One program instead of
a command per check: over SSH every command costs a round trip, and importing TensorFlow costs
seconds, so twenty checks as twenty commands would take a minute per host. It judges nothing: that
is the work of `checks/`, which is tested on recorded outputs. A project has these modules joined
into one file, `verify/probe.py` (`provision/joined.py`).

Standard library and Python 3.7 syntax only; runs no sudo, changes nothing, uses no GPU memory.
PARAMETERS is JSON: {"row": the lock's stack, "options": {"cudnn_root", "tensorflow_root", ...}}.
"""
