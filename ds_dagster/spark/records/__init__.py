"""Records ↔ columns: formats, types, schemas."""
