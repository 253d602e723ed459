"""Cores, memory and disk that a project needs, computed from its plans and the expected load."""
