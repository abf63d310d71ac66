"""Settings of Kafka's clients and their security, in Java's names and in librdkafka's. No client is opened here."""
