"""CREATE and UPDATE statements → declared stores, relations, schemas; and what they leave out."""
