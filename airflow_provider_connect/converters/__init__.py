"""Built-in converters: JSON, strings, bytes, numbers; Avro, JSON and Protobuf with a schema registry."""
