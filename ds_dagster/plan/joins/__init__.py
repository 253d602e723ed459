"""Joins: the form follows from the kinds of the sides and from ON."""
