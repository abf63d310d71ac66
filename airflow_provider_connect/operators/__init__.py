"""Operators that run connectors, and operators for verbs."""
