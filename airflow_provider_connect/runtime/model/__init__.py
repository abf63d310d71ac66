"""Kafka Connect's rules as pure values: versions and their ranges, states, verbs of the API."""
