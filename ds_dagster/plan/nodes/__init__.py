"""Plan nodes: frozen, checked when built, each knowing its fields, key, event time and changelog kind."""
