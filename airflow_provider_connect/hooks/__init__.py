"""Connections and settings that Airflow holds."""
