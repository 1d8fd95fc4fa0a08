"""Which versions fit what.

Rendered from provision/catalog by `provision roles sync`; edit that, where facts have sources.
"""

# GPU generation: first (of those from 418 on) and last driver branch, or None.
DRIVER_BRANCHES = {
    "Fermi": (390, 390),
    "Kepler": (418, 470),
    "Maxwell": (418, 580),
    "Pascal": (418, 580),
    "Volta": (418, 580),
    "Turing": (418, None),
    "Ampere": (450, None),
    "Ada": (525, None),
    "Hopper": (525, None),
    "Blackwell": (570, None),
}

# GPU generation: the first and last TensorFlow whose wheel runs on none of it.
TENSORFLOW_WITHOUT_CODE = {
    "Fermi": ((2, 4), (2, 21)),
    "Kepler": ((2, 15), (2, 21)),
    "Maxwell": ((2, 17), (2, 21)),
    "Blackwell": ((2, 4), (2, 21)),
}

# The same of a TensorFlow whose PTX the driver translates for it.
TENSORFLOW_TRANSLATED = {
    "Hopper": ((2, 4), (2, 15)),
}

# CUDA release: the newest gcc that its nvcc takes.
NEWEST_GCC = {
    "11.0": 9,
    "11.1": 10,
    "11.2": 10,
    "11.3": 10,
    "11.4": 10,
    "11.5": 11,
    "11.6": 11,
    "11.7": 11,
    "11.8": 11,
    "12.0": 12,
    "12.1": 12,
    "12.2": 12,
    "12.3": 12,
    "12.4": 13,
    "12.5": 13,
    "12.6": 13,
    "12.8": 14,
    "12.9": 14,
    "13.0": 15,
    "13.1": 15,
}

# podman's release: the newest CDI specification that it reads from then on.
PODMAN_CDI = (((5, 1), (0, 7, 0)), ((4, 1), (0, 5, 0)))
