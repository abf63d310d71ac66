"""Formats as functions over Arrow: JSON, Avro, Protobuf, Kafka Connect's texts. No settings, no topics."""
