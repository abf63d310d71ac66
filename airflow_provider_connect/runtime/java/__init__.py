"""Java plugins: what their jars declare; the JVM with Kafka Connect's own classes that runs them (py4j)."""
