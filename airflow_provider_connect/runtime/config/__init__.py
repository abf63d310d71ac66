"""Settings of workers, clients, connectors and DAGs; config providers; masking of secrets."""
