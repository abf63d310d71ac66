"""Runs of connectors, and verbs as tasks."""
