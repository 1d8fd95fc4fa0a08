"""What TensorFlow is asked to do: one small program for each check.

They lie on the host as they are here, for as long as an acceptance takes, and run in TensorFlow's
own environment, each in a process of its own and without root's rights: they import each other,
TensorFlow, numpy and the standard library of Python 3.7. Each prints one line of JSON with what it
measured; what that means is judged elsewhere.

By hand, from the folder above, on the first GPU or on a CPU:

    python -m programs.product '{"kind": "GPU", "count": 1}'
"""
