"""Processes, locks, logs and files of a running project."""
