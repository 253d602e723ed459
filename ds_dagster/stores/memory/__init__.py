"""Stores in memory, for tests."""
