"""Connectors under control of clients over HTTP, and what their topics, the mirror, REST and Airflow's DAGs hold of them in the end."""
