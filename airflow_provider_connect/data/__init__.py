"""Schemas, records and columns: the data model (pyarrow). No formats, no settings."""
