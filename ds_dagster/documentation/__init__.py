"""Addresses of documentation pages, and explanations of conditions."""
