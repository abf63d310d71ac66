"""Columns of batches."""

from typing import Any


def there(column: Any | None) -> Any:
    """A column that the batch must have."""
    assert column is not None
    return column
