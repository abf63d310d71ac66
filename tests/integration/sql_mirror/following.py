"""A follower in a process of its own, to be killed: worker properties as JSON, the database's address, a name."""

import json
import sys
import time

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.sql_mirror.follower import MirrorFollower
from tests.integration.sql_mirror.conftest import open_database


def main() -> None:
    properties, url, holder = sys.argv[1:]
    follower = MirrorFollower(WorkerSettings.of(json.loads(properties)), open_database(url).begin, holder=holder, now=time.time)
    while True:
        if not follower.step(0.1):
            time.sleep(0.2)


if __name__ == "__main__":
    main()
