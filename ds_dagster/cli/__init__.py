"""The command line ``ds`` / ``ds-dagster``. Nothing heavy is imported before a command needs it."""
