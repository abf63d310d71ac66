"""A small application whose JVM writes the archive of the classes that a run of connector tasks loads. It has one job with one partition.

``class_data`` passes it to spark-submit. Imports nothing of this package, so that it also runs if only PySpark is on the path.
"""

import os
import sys

import pyspark.sql.types  # noqa: F401 - before py4j's converters are chosen, as in a real run
from py4j import protocol
from pyspark import SparkConf, SparkContext


def main() -> None:
    """Runs the job, and exits without PySpark's one-second wait."""
    protocol.INPUT_CONVERTER[:] = [one for one in protocol.INPUT_CONVERTER if not type(one).__name__.startswith("Numpy")]
    context = SparkContext(conf=SparkConf().setAppName("class data"))
    counted = context.parallelize([0], 1).mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    context._jsc.sc().stop()
    sys.stdout.flush()
    os._exit(0 if counted == [1] else 1)


if __name__ == "__main__":
    main()
