"""Connectors under control of clients over HTTP, and what their topics, the mirror, REST and Airflow's DAGs say of them in the end."""
