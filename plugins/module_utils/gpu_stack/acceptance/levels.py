"""How much an acceptance asks of the cards, and how it treats those who work on them."""

from __future__ import annotations

# What the machine says; what TensorFlow does as well; the same until a time is over.
QUICK, NORMAL, LONG = "quick", "normal", "long"
LEVELS = (QUICK, NORMAL, LONG)
# What is loaded where somebody computes: the other cards of the host, or none of it.
OTHERS, NOTHING = "others", "nothing"
IN_USE = (OTHERS, NOTHING)
# Minutes after which no other program is begun. Of ten that are promised, two are left for the
# one that is at work then: the longest, ResNet-50, took 95 s on an H100, which had done all of the
# level normal in 325 s. Four cards do most of it at once, and wait for each other in the rest.
PATIENCE = 8
