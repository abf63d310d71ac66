"""The races behind ``make bench``: this package against a real Kafka Connect, on one broker, with the same data, in one session."""
