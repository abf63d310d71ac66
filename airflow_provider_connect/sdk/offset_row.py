"""What a destination keeps of one topic partition of a connector: the next offset, whose it is, and the topic that it counts in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.data.records import may_be_same_topic
from airflow_provider_connect.errors import ConfigException, FencedException
from airflow_provider_connect.sdk.task import SinkTaskContext

ADOPT: Final = "destination.adopt"
"""The connector setting with the scope of another cluster whose offsets at the destination give way to this connector's."""
_ALTERED: Final = " altered"


def scope_of(claim: str) -> str:
    """Claims are compared inside one scope only: the config topic whose id stands before the last colon."""
    return claim.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """The state of one partition in the destination. ``next_offset`` None: no offset is known. ``claim_epoch`` orders the claims of one
    ``scope``. ``topic_id`` is the id of the topic that the offset counts in (KIP-516); empty: not known."""

    next_offset: int | None
    claim: str
    claim_epoch: int
    topic_id: str = ""

    def is_newer_than(self, claim: str, claim_epoch: int) -> bool:
        """Whether the row's claim is newer; claims of different config topics cannot be compared."""
        return scope_of(self.claim) == scope_of(claim) and self.claim_epoch > claim_epoch

    def taken(self, owned: object, claimant: OffsetRow, *, adopts: str | None = None) -> OffsetRow:
        """The row with the claim of ``claimant``, a row of the task that takes ``owned`` over.

        An offset holds in the topic that it was counted in. In a topic that was created anew under the name no offset is known yet. Where
        that row was written by another Connect cluster too, its offset is neither continued nor dropped: ConfigException, unless
        ``adopts`` is that cluster's scope. Raises FencedException if the row's own claim is newer."""
        if self.is_newer_than(claimant.claim, claimant.claim_epoch):
            raise FencedException(f"{owned} belongs to the newer claim {self.claim}, claim {claimant.claim} may no longer write")
        if may_be_same_topic(self.topic_id, claimant.topic_id):
            topic_id = claimant.topic_id or self.topic_id
            return replace(self, claim=claimant.claim, claim_epoch=claimant.claim_epoch, topic_id=topic_id)
        scope = scope_of(self.claim)
        if scope not in (scope_of(claimant.claim), adopts):
            raise ConfigException(
                f"{owned}: the destination holds offsets of a connector of this name in another Connect cluster (config topic id {scope}), "
                f"which read another topic of this name (id {self.topic_id}). Records of both would be mixed up. Give this connector "
                f"another destination or another name; or set {ADOPT}={scope}: then it begins anew beside what that cluster has delivered"
            )
        return replace(claimant, next_offset=None)

    @classmethod
    def of_task(cls, context: SinkTaskContext, topic: str) -> OffsetRow:
        """The row of a task that knows no offset yet: its claim, and the topic's id."""
        return cls(None, context.claim, context.claim_epoch, context.topic_ids.get(topic, ""))

    @property
    def is_altered(self) -> bool:
        """Whether an admin has set the offset since a task wrote the row."""
        return self.claim.endswith(_ALTERED)

    def altered(self, next_offset: int | None) -> OffsetRow:
        """The row with another offset, and a claim that no task has: a task that still writes is fenced."""
        return replace(self, next_offset=next_offset, claim=self.claim.removesuffix(_ALTERED) + _ALTERED)
