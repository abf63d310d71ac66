"""The JVM with Kafka Connect's own classes (py4j): its jars, its log, its herder and worker."""
