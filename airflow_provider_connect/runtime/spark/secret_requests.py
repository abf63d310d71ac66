"""How the driver of a shared application gets the values of variables that only Airflow resolves: by files in the run's private directory.

The driver writes a request for one connector, and the Airflow task that started the driver answers it. Both run on one host. Each file has
mode 0600, and is removed by its reader.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.spark.run_directory import ANSWER, REQUEST, write_private

log = logging.getLogger(__name__)
_CHECK_SECONDS = 0.1
_ANSWER_SECONDS = 60.0

SecretsOf = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Returns the values of Airflow's variables in a connector's raw config. Raises ConfigException for an unknown or forbidden one."""


def request_secrets(directory: Path, connector: str, config: Mapping[str, str]) -> Mapping[str, str]:
    """The values of Airflow's variables in the connector's raw config. One call at a time for each connector. Raises what ``SecretsOf``
    raises, RetriableException if there is no answer."""
    name = hashlib.sha256(connector.encode(errors="surrogatepass")).hexdigest()
    answered = directory / (name + ANSWER)
    answered.unlink(missing_ok=True)
    write_private(directory / (name + REQUEST), json.dumps({"connector": connector, "config": dict(config)}))
    until = time.monotonic() + _ANSWER_SECONDS
    while not answered.exists():
        if time.monotonic() > until:
            raise RetriableException(f"The Airflow task did not resolve the variables of connector {connector} in {_ANSWER_SECONDS:g} s")
        time.sleep(_CHECK_SECONDS)
    answer = json.loads(answered.read_text())
    answered.unlink()
    if "error" in answer:
        raise (RetriableException if answer["retriable"] else ConfigException)(answer["error"])
    return dict(answer["secrets"])


@contextmanager
def answering(directory: Path, secrets_of: SecretsOf) -> Iterator[None]:
    """Answer requests until the end of the block, in a thread."""
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.wait(_CHECK_SECONDS):
            for asked in directory.glob(f"*{REQUEST}"):
                _answer(asked, secrets_of)

    thread = threading.Thread(target=serve, name="secrets", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for left in [*directory.glob(f"*{REQUEST}"), *directory.glob(f"*{ANSWER}")]:
            left.unlink(missing_ok=True)


def _answer(asked: Path, secrets_of: SecretsOf) -> None:
    try:
        request = json.loads(asked.read_text())
    except (OSError, ValueError) as error:  # the driver asks again
        log.warning("A request of the driver for variables could not be read: %s", error)
        return
    finally:
        with suppress(OSError):
            asked.unlink()
    try:
        answer: dict[str, object] = {"secrets": dict(secrets_of(request["connector"], request["config"]))}
    except ConnectException as error:
        answer = {"error": error.message, "retriable": error.retriable}
    except Exception as error:  # Airflow's secrets backends raise any exception
        answer = {"error": f"Airflow could not resolve the variables: {type(error).__name__}", "retriable": True}
    with suppress(OSError):  # a full disk: the driver asks again
        write_private(asked.with_suffix(ANSWER), json.dumps(answer))
