"""What users are told of offsets, in the words of KIP-875 and Kafka Connect (contract §7.3)."""

NONE_GIVEN = "Partitions / offsets need to be provided for an alter offsets request"
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by "
    "issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)
_INSIDE = (
    "The framework-managed offsets for this connector have been {0} successfully. However, if this connector manages offsets externally, "
    "they will need to be manually {0} in the system that the connector uses."
)
ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
ALTERED_INSIDE, RESET_INSIDE = _INSIDE.format("altered"), _INSIDE.format("reset")
_ZOMBIES = (
    "Failed to {0} consumer group offsets for connector {{0}} either because its tasks haven't stopped completely yet or the connector was "
    "resumed before the request to {0} its offsets could be successfully completed. If the connector is in a stopped state, this operation "
    "can be safely retried. If it doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink "
    "tasks."
)
ALTER_BUSY, RESET_BUSY = _ZOMBIES.format("alter"), _ZOMBIES.format("reset")
ALTER_FAILED = "Failed to alter consumer group offsets for connector {}"
RESET_FAILED = "Failed to reset consumer group offsets for sink connector {}"
LIST_FAILED = "Failed to list offsets prior to resetting offsets for sink connector {}"
SINK_GET_FAILED = "Failed to retrieve consumer group offsets for sink connector {}"
SOURCE_GET_FAILED = "Failed to retrieve offsets for source connector {}"
SOURCE_READ_TIMEOUT = "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source connector {}"
SOURCE_WRITE_TIMEOUT = "Timed out while attempting to modify offsets for source connector {}"
