"""The connector's own word on a change of its offsets, and what becomes of its refusals (contract §7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from airflow_provider_connect.errors import (
    BadRequestException,
    ConnectException,
    NotFoundException,
    RetriableException,
    StoreTimeoutException,
)
from airflow_provider_connect.herder.probe import Probe

Pair = tuple[Mapping[str, object] | None, Mapping[str, object] | None]
Ask = Callable[[str, Sequence[Pair]], bool]
"""``asked`` for one connector, given ``word`` and ``offsets``."""


def asked(probe: Probe | None, name: str, config: Mapping[str, str], word: str, offsets: Sequence[Pair]) -> bool:
    """Whether connector ``name`` takes care of these offsets wherever it keeps some itself; False: it does not say so, or nobody can ask.

    ``word`` is source or sink. Raises BadRequestException for offsets that the connector refuses, with its own text; ConnectException when
    it takes none at all, or failed.
    """
    if probe is None:
        return False
    try:
        return probe.alter_offsets(name, config, offsets)
    except NotImplementedError as error:
        text = f"Failed to modify offsets for connector {name} because it doesn't support external modification of offsets"
        raise ConnectException(text) from error
    except RetriableException as error:
        raise StoreTimeoutException(f"Timed out while calling the 'alterOffsets' method for {word} connector {name}: {error}") from error
    except NotFoundException:
        raise
    except ConnectException as error:
        raise BadRequestException(error.message) from error
    except Exception as error:
        raise ConnectException(f"Failed to modify offsets for {word} connector {name}") from error
