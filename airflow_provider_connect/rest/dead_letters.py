"""``/connectors/«c»/dead-letters``: replays of a sink's dead-letter records.

The user needs the right to change the sink and the connector whose runs deliver its records again. A dry run returns records, so it needs
the same rights.
"""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest import bodies
from airflow_provider_connect.rest.access import Right, User, require
from airflow_provider_connect.rest.answers import answer
from airflow_provider_connect.rest.calls import Calls, author_of, calls_of, user_of
from airflow_provider_connect.rest.routes import Connector, route_for
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest, replay_connector

router = APIRouter()


class _Edit(BaseModel):
    """A new key or value of one record, as text. An omitted part is unchanged."""

    model_config = ConfigDict(strict=True, extra="forbid")
    key: str | None = None
    value: str | None = None


class ReplayBody(bodies.JsonBody):
    """The body of ``POST /connectors/«c»/dead-letters/replay``. All records meet an empty condition."""

    offsets: list[str] = Field([], max_length=10_000, description="Records of the queue as PARTITION:RANGE, such as 0:5-20 or 1:7")
    from_topics: list[str] = Field([], max_length=1000, description="Only records that failed on these topics")
    exceptions: list[str] = Field([], max_length=1000, description="Only these exception classes, full or simple names")
    topic: str | None = Field(None, description="The topic for the records; default: the topic on which each failed")
    edits: dict[str, _Edit] = Field({}, max_length=10_000, description="New keys and values by PARTITION:OFFSET; null writes a null")
    transforms: dict[str, str] = Field({}, description="transforms, transforms.…, predicates, predicates.…, as in a connector's config")
    replay: str | None = Field(None, max_length=500, description="Identifies the request: sent twice, it is one replay")
    dry_run: bool = Field(False, description="Write nothing, and return what would be written")
    records: int = Field(10, ge=1, le=1000, description="Maximum number of records of a dry run")

    @field_validator("transforms")
    @classmethod
    def _of_few_aliases(cls, transforms: dict[str, str]) -> dict[str, str]:
        return {key: text for key, text in bodies.settings(transforms).items() if text is not None}

    def request(self) -> ReplayRequest:
        """The request, without the fields of a dry run."""
        edits = {at: edit.model_dump(exclude_unset=True) for at, edit in self.edits.items()}
        given = self.offsets, self.from_topics, self.exceptions, self.topic, edits, self.transforms, self.replay
        return ReplayRequest(*given)


@route_for(router, "dead_letter_replay")
async def get_replay(request: Request, connector: Connector) -> Response:
    calls, user = calls_of(request), user_of(request)
    return await calls.read(request, connector, lambda herder: answer(visible_replay(calls, user, herder.dead_letter_replay(connector))))


def visible_replay(calls: Calls, user: User, found: Replay) -> Replay:
    """``found`` without the state of the replaying connector, if the user may not read that connector."""
    return found if calls.access.may(user, Right.READ, found.connector) else dataclasses.replace(found, state=None, failure=None)


@route_for(router, "replay_dead_letters", body=ReplayBody.model_json_schema())
async def replay_dead_letters(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def replay(herder: Herder, asked: ReplayBody) -> Response:
        require(calls.access, user_of(request), Right.CHANGE, replay_connector(connector))
        found = herder.replay_dead_letters(
            connector,
            asked.request(),
            dry_run=asked.dry_run,
            records=asked.records,
            author=author_of(request),
            redact=calls.secrets.redacted,
        )
        return answer(found, 200 if asked.dry_run else 202)

    return await calls.change_with_body(request, connector, ReplayBody.of, replay)
