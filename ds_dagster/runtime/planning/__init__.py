"""What applying a project would do, from what runs: here, or in a state file that somebody saved elsewhere."""
