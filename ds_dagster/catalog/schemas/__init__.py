"""Schemas of records (Avro, Protobuf, JSON Schema) ↔ columns, and the places where schemas are stored."""
