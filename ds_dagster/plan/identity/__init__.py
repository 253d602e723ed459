"""Which plan this is: fingerprint, state signature, what a change of it means."""
