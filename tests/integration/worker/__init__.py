"""The worker against a real broker, its tasks in this process instead of Spark's: everything but the engine is the product's."""
