"""What the config of a Java connector may set, and what Kafka Connect's classes get of it. No JVM."""
