"""A bound query and its stores' specs → a running streaming query with its sinks."""
