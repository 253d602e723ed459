"""A project's SQL files, compiled once, and the doors to its stores."""
