"""Formats as functions over Arrow: JSON, Avro, Protobuf, Kafka Connect's text forms. Know no settings and no topics."""
