"""Launchers, which make sure that an engine runs."""
