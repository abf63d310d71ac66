"""``airflow connect new``: a package with a connector to begin with."""

from airflow_provider_connect.skeleton.new import new

__all__ = ["new"]
