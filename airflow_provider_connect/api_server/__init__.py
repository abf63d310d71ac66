"""Inside Airflow's API server: plugin, app, access, launcher; ticker of reconciler, DAG follower and SQL mirror."""
