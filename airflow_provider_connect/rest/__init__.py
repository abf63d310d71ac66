"""The REST API (fastapi)."""
