"""Plan and tasks of a Java connector: Kafka Connect's worker in the JVM moves the records."""
