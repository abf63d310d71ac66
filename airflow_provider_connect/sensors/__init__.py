"""Waits for connectors."""
