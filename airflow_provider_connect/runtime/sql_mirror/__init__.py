"""The content of the topics, with its history, in SQL (sqlalchemy)."""
