"""One run: the check for work, claim, plan, start of its tasks (pyspark)."""
