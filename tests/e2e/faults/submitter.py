"""A small process that submits a run as the operator does in Airflow's task process: ``python -m tests.e2e.faults.submitter``.

Reads JSON from standard input: ``folder``, ``connector``, ``settings``, ``config`` and ``fault``; ends with the run.
"""

import json
import sys
from pathlib import Path

from airflow_provider_connect.runtime.spark.parent_death import die_with_parent, dies_with_parent
from tests.e2e.faults.runs import Fault, Runs

if __name__ == "__main__":
    die_with_parent()
    request = json.load(sys.stdin)
    runs = Runs(
        Path(request["folder"]), request["connector"], request["settings"], request["config"], preexec=dies_with_parent(own_group=True)
    )
    submission = runs.submit(Fault(**request["fault"]))
    submission.process.wait()
