"""One run of a connector, as spark-submit starts it: ``run_connector.py --run-dir DIR``. Parses arguments and calls the worker."""

from airflow_provider_connect.runtime.spark.parent_death import die_with_parent

die_with_parent()  # first, because from now on this process ends when spark-submit is killed

import argparse  # noqa: E402
from pathlib import Path  # noqa: E402

from airflow_provider_connect.runtime.worker.application.driver import run_with_spark  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's own directory, with run.json in it")
    run_with_spark(parser.parse_args().run_dir)
