"""Kafka Connect without Airflow: agent, one run, embedded in a program."""
