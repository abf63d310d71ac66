"""Kafka Connect itself, without Airflow: rules, settings, topics, plugins, runs, verbs."""
