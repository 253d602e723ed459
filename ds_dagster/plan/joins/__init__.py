"""Joins: their form depends on the kinds of the sides and on ON."""
