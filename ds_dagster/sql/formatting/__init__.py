"""Formats SQL files in one layout, from their tokens. The meaning of a file does not change."""
