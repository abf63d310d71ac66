"""A follower in a process of its own, to be killed: worker properties as JSON, the database's address, a name."""

import json
import sys
import time

from airflow_provider_connect.mirror.follower import Follower
from airflow_provider_connect.settings import WorkerSettings
from tests.integration.mirror.conftest import open_database


def main() -> None:
    properties, url, holder = sys.argv[1:]
    follower = Follower(WorkerSettings.of(json.loads(properties)), open_database(url).begin, holder=holder, now=time.time)
    while True:
        if not follower.step(0.1):
            time.sleep(0.2)


if __name__ == "__main__":
    main()
