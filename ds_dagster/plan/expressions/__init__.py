"""Expressions: bound trees, types, operators, constants, their text."""
