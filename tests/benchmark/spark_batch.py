"""The application of ``spark_peer``: from a topic to Parquet files, or back."""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.functions import col, from_json, struct


def main(asked: str) -> None:
    config = json.loads(asked)
    spark, servers = SparkSession.builder.getOrCreate(), config["bootstrap.servers"]
    if "schema" in config:
        records = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", config["topic"]).load()
        envelopes = records.select(from_json(col("value").cast("string"), f"payload STRUCT<{config['schema']}>").alias("record"))
        envelopes.select("record.payload.*").write.parquet(config["path"])
    else:
        rows = spark.read.parquet(config["path"])
        values = rows.select(to_avro(struct("*")).alias("value"))  # a registry's header is left out
        values.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", config["topic"]).save()


if __name__ == "__main__":
    main(sys.argv[1])
