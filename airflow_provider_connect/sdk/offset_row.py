"""The state that a destination stores for one topic partition of a connector: next offset, claim and topic id."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.data.records import may_be_same_topic
from airflow_provider_connect.errors import ConfigException, FencedException
from airflow_provider_connect.sdk.task import SinkTaskContext

ADOPT: Final = "destination.adopt"
"""The connector setting that names another cluster's scope. The connector may then replace that cluster's offsets in the destination."""
_ALTERED: Final = " altered"


def scope_of(claim: str) -> str:
    """The scope of ``claim``: the part before the last colon, which is the id of the config topic. Only claims of one scope can be
    compared."""
    return claim.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """The state of one partition in the destination.

    If ``next_offset`` is None, it is unknown. ``claim_epoch`` orders the claims of one scope. ``topic_id`` is the id of the topic that the
    offset refers to (KIP-516); empty: unknown.
    """

    next_offset: int | None
    claim: str
    claim_epoch: int
    topic_id: str = ""

    def is_newer_than(self, claim: str, claim_epoch: int) -> bool:
        """Whether the row's claim is newer. False for a claim of another scope, because claims of two scopes cannot be compared."""
        return scope_of(self.claim) == scope_of(claim) and self.claim_epoch > claim_epoch

    def take_over(self, owned: object, claimant: OffsetRow, *, adopts: str | None = None) -> OffsetRow:
        """This row with the claim of ``claimant``, the row of a task that takes over the partition. ``owned`` names the partition in
        messages.

        If the topic was deleted and created again, the next offset becomes unknown, because an offset is valid only for one topic id. In
        this case, a row of another Connect cluster raises ConfigException, unless ``adopts`` is that cluster's scope. Raises
        FencedException if this row's claim is newer.
        """
        if self.is_newer_than(claimant.claim, claimant.claim_epoch):
            raise FencedException(f"{owned} belongs to the newer claim {self.claim}, claim {claimant.claim} may no longer write")
        if may_be_same_topic(self.topic_id, claimant.topic_id):
            topic_id = claimant.topic_id or self.topic_id
            return replace(self, claim=claimant.claim, claim_epoch=claimant.claim_epoch, topic_id=topic_id)
        scope = scope_of(self.claim)
        if scope not in (scope_of(claimant.claim), adopts):
            raise ConfigException(
                f"{owned}: the destination holds offsets of a connector of this name in another Connect cluster (config topic id {scope}), "
                f"which read another topic of this name (id {self.topic_id}). Records of both would be mixed. Give this connector another "
                f"destination or another name, or set {ADOPT}={scope} to start from the first record and keep what that cluster delivered"
            )
        return replace(claimant, next_offset=None)

    @classmethod
    def of_task(cls, context: SinkTaskContext, topic: str) -> OffsetRow:
        """The row of a task that knows no offset yet: its claim and the topic's id."""
        return cls(None, context.claim, context.claim_epoch, context.topic_ids.get(topic, ""))

    @property
    def is_altered(self) -> bool:
        """Whether an admin has set the offset since a task last wrote the row."""
        return self.claim.endswith(_ALTERED)

    def alter(self, next_offset: int | None) -> OffsetRow:
        """The row with another offset and a claim that no task has, so a task that still writes is fenced."""
        return replace(self, next_offset=next_offset, claim=self.claim.removesuffix(_ALTERED) + _ALTERED)
