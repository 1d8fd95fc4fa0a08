"""How much an acceptance asks of the cards."""

from __future__ import annotations

# What the machine says; what TensorFlow does as well; the same until a time is over.
QUICK, NORMAL, LONG = "quick", "normal", "long"
LEVELS = (QUICK, NORMAL, LONG)
