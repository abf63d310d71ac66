"""Tasks: pipelines, delivery, errors (confluent_kafka); and previews."""
