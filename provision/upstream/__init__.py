"""The publishers of what a lock is made of: signed package indices, installers and wheels.

The only part of the generator that opens connections. `packages` and `closure` are pure: parsed
indices in, versions out.
"""
