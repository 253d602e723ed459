"""Identity of a plan: fingerprint, state signature, and whether a changed query may keep its checkpoint."""
