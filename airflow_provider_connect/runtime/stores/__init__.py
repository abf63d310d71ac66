"""The topics (confluent_kafka): configs, offsets, statuses, batches."""
