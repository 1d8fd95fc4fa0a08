"""What keeps a worker of a training: it stays on the host, in the worker's folder, as its owner's.

Its modules import each other alone, and run in TensorFlow's own Python.
"""
