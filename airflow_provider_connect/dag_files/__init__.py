"""ConnectorDag, the bundle of stored connectors, retries, links."""
