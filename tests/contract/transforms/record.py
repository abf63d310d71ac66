"""Record anew what Kafka Connect's own transformations do: ``python -m tests.contract.transforms.record``.

Needs a Java that has its compiler. The golden file has one answer a line, in the order of the cases."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.contract.transforms.cases import Json, rows
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

VERSION = KAFKA_CONNECT
CONNECT_JARS = (
    *(f"org.apache.kafka:{name}:{VERSION}" for name in ("connect-runtime", "connect-transforms", "kafka-tools")),
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
GOLDEN = Path(__file__).parents[1] / "golden" / "transforms.jsonl"
PROGRAM = Path(__file__).with_name("TransformRecorder.java")


def mark(case: Json) -> str:
    """What identifies a case: an answer whose mark is not its case's is of another time."""
    return f"{zlib.crc32(json.dumps(case).encode()):08x}"


def main() -> None:
    """Write each case with its answer as one line of the golden file."""
    cache = cache_directory()
    java = find_java(cache=cache)
    jars = fetch_jars(cache / "connect", f"worker-{VERSION}", CONNECT_JARS, java, pins=PINS)
    cases = list(rows())
    command = [str(java.executable), "-Duser.timezone=UTC", "-Duser.language=en", "-cp", f"{jars}/*", str(PROGRAM)]
    done = subprocess.run(
        command, input="\n".join(map(json.dumps, cases)), stdout=subprocess.PIPE, text=True, check=True, timeout=HANG_SECONDS
    )
    answers = done.stdout.splitlines()
    lines = [{"class": case["class"], "of": mark(case), "answer": json.loads(answer)} for case, answer in zip(cases, answers, strict=True)]
    GOLDEN.write_text("".join(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n" for line in lines), encoding="utf-8")
    print(f"{len(cases)} cases recorded in {GOLDEN}")


if __name__ == "__main__":
    main()
