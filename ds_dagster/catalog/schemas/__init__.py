"""Schemas of records (Avro, Protobuf, JSON Schema) ↔ columns, and where schemas are kept."""
