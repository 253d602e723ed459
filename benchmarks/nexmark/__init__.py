"""Nexmark: the 23 queries of the published suite in the dialect, with a batch answer for each and their speed."""
