"""What a lock is made of, where it is published: signed package indices, installers and wheels.

The only part of the generator that opens a connection. `packages` and `closure` are pure: parsed
indices in, versions out.
"""
