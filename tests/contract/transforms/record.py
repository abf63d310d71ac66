"""Record anew what Kafka Connect's own transformations do: ``python -m tests.contract.transforms.record``.

Needs a Java that has its compiler. The golden file has one answer a line, in the order of the cases."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from airflow_provider_connect.dev.jar_cache import fetch_jars
from airflow_provider_connect.launch.cache import cache_directory
from airflow_provider_connect.launch.java_runtime import find_java
from tests.contract.transforms.cases import rows

VERSION = "4.3.1"
CONNECT_JARS = (
    *(f"org.apache.kafka:{name}:{VERSION}" for name in ("connect-runtime", "connect-transforms", "kafka-tools")),
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
GOLDEN = Path(__file__).parents[1] / "golden" / "transforms.jsonl"
PROGRAM = Path(__file__).with_name("TransformRecorder.java")


def main() -> None:
    """Write each case with its answer as one line of the golden file."""
    cache = cache_directory()
    java = find_java(cache=cache)
    jars = fetch_jars(cache / "connect", f"worker-{VERSION}", CONNECT_JARS, java)
    cases = [json.dumps(case) for case in rows()]
    command = [str(java.executable), "-Duser.timezone=UTC", "-Duser.language=en", "-cp", f"{jars}/*", str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(cases), capture_output=True, text=True, check=True, timeout=120)
    answers = done.stdout.splitlines()
    with GOLDEN.open("w", encoding="utf-8") as golden:
        for case, answer in zip(cases, answers, strict=True):
            line = {**json.loads(case), "answer": json.loads(answer)}
            golden.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(cases)} cases recorded in {GOLDEN}")


if __name__ == "__main__":
    main()
