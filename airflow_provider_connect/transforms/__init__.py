"""Built-in transformations and predicates: Kafka Connect's, and SQL over a batch (duckdb)."""
