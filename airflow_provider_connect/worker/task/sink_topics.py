"""Which topics a sink reads: those it names, or those that its pattern matches."""

from __future__ import annotations

import logging

from airflow_provider_connect.model.connector_settings import ConnectorSettings
from airflow_provider_connect.stores.topic_admin import TopicAdmin

log = logging.getLogger(__name__)


def topics_of(settings: ConnectorSettings, admin: TopicAdmin) -> dict[str, int]:
    """The partition count of each topic of a sink. A named topic that does not exist yet is left out: there is nothing in it."""
    if settings.topics:
        counts = admin.partitions(settings.topics)
        for topic in settings.topics:
            if topic not in counts:
                log.warning("Topic %s of connector %s does not exist yet", topic, settings.name)
        return counts
    return admin.matching(settings.topics_regex or "")
