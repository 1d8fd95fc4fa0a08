"""Wrong facts, by component: the states that must turn a check red."""
