"""``ds demo``: the example project end to end on real local servers, and the proof that its results are right."""
