"""A project's SQL files, compiled once, and connections to its stores."""
