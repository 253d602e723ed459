"""CREATE and UPDATE statements → declared stores, relations and schemas, with defaults for unwritten parts."""
