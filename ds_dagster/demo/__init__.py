"""``ds demo``: runs the example project on real local servers and compares its results with a model."""
