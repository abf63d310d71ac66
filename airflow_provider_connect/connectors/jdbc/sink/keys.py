"""What rows with the same key come to when they are written at once. Knows nothing of databases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.sdk.arrow import pa


@dataclass(frozen=True, slots=True)
class Effect:
    """What records of a table come to: first the rows of ``deleted`` go, then those of ``written`` come. Both are rising places among the
    records; ``written`` None: all of them. ``keyed``: for each of ``written`` the first record of its key, whose key a new row keeps though
    the last record may write it in another way; None: there is only one way."""

    deleted: pa.Array | None
    written: pa.Array | None
    keyed: pa.Array | None = None


def repeated(rows: pa.Table, unique: Iterable[Collection[str]]) -> list[int]:
    """The rows that have the same values as an earlier row, without nulls, in all columns of one of ``unique``."""
    import polars as pl

    found: set[int] = set()
    for names in unique:
        if set(names) <= set(rows.column_names):
            keys = _frame(rows.select(sorted(names)))
            is_again = ~_whole(keys.columns).is_first_distinct() & pl.all_horizontal(pl.all().is_not_null())
            found.update(keys.select(is_again).to_series().arg_true())
    return sorted(found)


def behind_others(keys: pa.Table, rows: Sequence[int]) -> list[int]:
    """Which of these rows have a key that an earlier row has, too. ``keys`` as in ``effect_of``."""
    if not rows:
        return []
    frame = _frame(keys)
    is_first = frame.select(_whole(frame.columns).is_first_distinct()).to_series()
    return [row for row in rows if not is_first[row]]


EVERYTHING: Final = Effect(None, None)


def effect_of(keys: pa.Table, deletes: pa.ChunkedArray | None, mode: InsertMode, *, has_variants: bool = False) -> Effect:
    """What the records come to when they are applied at once. ``keys`` are equal where the database holds the records' keys equal;
    ``has_variants``: the records may write these in several ways.

    Of several changes of one key the last counts, but for inserts: two of one key are a mistake that the database finds. A delete takes
    everything before it away.
    """
    import polars as pl

    if deletes is None and mode is InsertMode.INSERT:
        return EVERYTHING
    frame = _frame(keys).with_row_index("row")
    names = frame.columns[1:]
    is_last = _whole(names).is_last_distinct()
    if deletes is None:
        last = (frame.with_columns(_first(names)) if has_variants else frame).filter(is_last)
        return EVERYTHING if len(last) == len(frame) else Effect(None, last["row"].to_arrow(), _column(last, "first"))
    marked = frame.with_columns(pl.Series("is delete", deletes.to_numpy()))
    last_delete = pl.when("is delete").then(pl.col("row").cast(pl.Int64)).max().over(names).fill_null(-1)
    left = marked.with_columns(last_delete.alias("last delete")).filter(pl.col("row") >= pl.col("last delete"))
    written = left.filter(~pl.col("is delete"))
    if mode is InsertMode.INSERT:
        return Effect(left.filter("is delete")["row"].to_arrow(), written["row"].to_arrow())
    written = (written.with_columns(_first(names)) if has_variants else written).filter(is_last)
    return Effect(left.filter("is delete")["row"].to_arrow(), written["row"].to_arrow(), _column(written, "first"))


def _column(frame: Any, name: str) -> pa.Array | None:  # a polars DataFrame
    return frame[name].to_arrow() if name in frame.columns else None


def _first(names: Sequence[str]) -> Any:  # a polars expression
    """The first row of each key."""
    import polars as pl

    return pl.col("row").min().over(names).alias("first")


def _frame(keys: pa.Table) -> Any:  # a polars DataFrame
    """The keys under names that no other column has."""
    import polars as pl

    return pl.DataFrame(pl.from_arrow(keys.rename_columns([f"key {number}" for number in range(keys.num_columns)])))


def _whole(names: Sequence[str]) -> Any:  # a polars expression
    """A key as one value."""
    import polars as pl

    return pl.col(names[0]) if len(names) == 1 else pl.struct(*names)
