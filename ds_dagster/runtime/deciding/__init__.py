"""What to do next, as pure functions over records."""
