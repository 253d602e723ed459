"""Rules over bound plans: refusals and warnings."""
