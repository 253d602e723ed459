"""The commands of ``ds``, one file per group."""
