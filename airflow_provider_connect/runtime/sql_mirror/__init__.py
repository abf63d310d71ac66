"""What the topics hold, with its history, in SQL (sqlalchemy)."""
