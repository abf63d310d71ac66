"""The herder: every verb of Kafka Connect."""
