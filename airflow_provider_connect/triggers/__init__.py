"""Waits of deferred tasks."""
