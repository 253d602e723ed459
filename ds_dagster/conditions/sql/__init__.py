"""Conditions of statements: what ``ds check`` refuses."""
