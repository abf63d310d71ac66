"""Reads and changes of the tables, in the caller's session: the caller commits, so that what belongs together is one transaction."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_provider_connect.mirror.tables import agreement, lease


@dataclass(frozen=True, slots=True)
class Agreement:
    """The paused flag and the target state that last agreed."""

    paused: bool
    target_state: str


def agreements(session: Session | Connection) -> dict[str, Agreement]:
    """All agreements by connector."""
    rows = session.execute(select(agreement.c.connector, agreement.c.paused, agreement.c.target_state))
    return {name: Agreement(bool(paused), state) for name, paused, state in rows}


def move_agreement(session: Session | Connection, connector: str, old: Agreement | None, new: Agreement) -> bool:
    """Replace ``old`` by ``new``. False, with nothing changed, when another process has moved the row."""
    if old is None:
        values = {"connector": connector, "paused": new.paused, "target_state": new.target_state}
        return _inserted(session, insert(agreement).values(values))
    statement = (
        update(agreement)
        .where(agreement.c.connector == connector, agreement.c.paused == old.paused, agreement.c.target_state == old.target_state)
        .values(paused=new.paused, target_state=new.target_state)
    )
    return _count(session, statement) == 1


def hold_lease(session: Session | Connection, name: str, holder: str, *, now: float, seconds: float) -> bool:
    """Take or keep the lease ``name`` for ``seconds`` from ``now``. False: another holder has it and it has not run out."""
    free = (lease.c.holder == holder) | (lease.c.until < now)
    if _count(session, update(lease).where(lease.c.name == name, free).values(holder=holder, until=now + seconds)) == 1:
        return True
    if session.execute(select(lease.c.name).where(lease.c.name == name)).first() is not None:
        return False
    return _inserted(session, insert(lease).values(name=name, holder=holder, until=now + seconds))


def drop_lease(session: Session | Connection, name: str, holder: str) -> None:
    """Let the next one take the lease at once."""
    session.execute(delete(lease).where(lease.c.name == name, lease.c.holder == holder))


def _inserted(session: Session | Connection, statement: Any) -> bool:
    try:
        with session.begin_nested():
            session.execute(statement)
    except IntegrityError:  # another process was first
        return False
    return True


def _count(session: Session | Connection, statement: Any) -> int:
    return int(session.execute(statement).rowcount)  # type: ignore[attr-defined]  # an update's result is a CursorResult
