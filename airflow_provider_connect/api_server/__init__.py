"""Inside Airflow's API server: the plugin, the app, access rights, the launcher and the ticker.

The ticker runs the reconciler, the DAG follower and the SQL mirror."""
