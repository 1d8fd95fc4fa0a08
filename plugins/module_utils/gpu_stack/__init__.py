"""One look at a host and one plan for it.

A run, a check and a drift report must never disagree, so all three ask this package: `look` reads
the host through a `Context`, and `plan` is a pure function of the lock, the wish and what was
found. It is imported by the module, piped to the host's Python by the action plugin, and tested on
recorded trees; standard library only, Python 3.7 syntax, nothing of Ansible.
"""
