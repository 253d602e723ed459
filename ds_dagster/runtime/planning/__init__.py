"""What applying a project would do to the running jobs: of the journal, or of a saved state file."""
