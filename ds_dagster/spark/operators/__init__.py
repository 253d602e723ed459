"""Stateful plan nodes as calls of the operators in our jar."""
