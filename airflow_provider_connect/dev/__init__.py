"""Servers of the demonstration and of the tests."""
