"""Plan, tasks, delivery, errors: inside the Spark application (pyspark); readiness and previews outside."""
