"""A real RabbitMQ on the loopback interface for tests, from Debian's packages, with Erlang beside it."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import httpx

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer, free_ports
from tests.conftest import CACHE
from tests.debian_packages import unpacked
from tests.waiting import HANG_SECONDS

_ERLANG: Final = "base asn1 crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl syntax-tools tools xmerl"
"""What the server asks for of Erlang."""
_PACKAGES: Final = ("rabbitmq-server", *(f"erlang-{name}" for name in _ERLANG.split()))


class RabbitmqServer(OwnServer):
    """User ``guest`` with the password ``guest``. Its start raises MissingServerError."""

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)
        self._http, self._epmd, self._distribution = free_ports(3)

    def start(self) -> Self:
        root = unpacked(CACHE / "rabbitmq" / "root", _PACKAGES)
        erlang = root / "usr/lib/erlang"
        [epmd] = erlang.glob("erts-*/bin/epmd")
        [program] = root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
        folder = self._folder = Path(tempfile.mkdtemp(prefix="rabbitmq-"))
        (folder / "erl").write_text((erlang / "bin/erl").read_text().replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={erlang}"))
        (folder / "erl").chmod(0o755)
        (folder / "plugins").write_text("[rabbitmq_management].\n")
        (folder / "rabbitmq.conf").write_text(f"management.tcp.ip = {LOOPBACK}\nmanagement.tcp.port = {self._http}\n")
        own = {
            "HOME": str(folder),  # for the cookie
            "PATH": f"{folder}:{erlang / 'bin'}:{os.environ['PATH']}",
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self._epmd),
            "RABBITMQ_NODENAME": f"rabbit{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        }
        # in one group: a name server, which the script would leave behind as a daemon, and the script's child
        script = f'"{epmd}" -address {LOOPBACK} -port {self._epmd} & exec "{program}"'
        self._spawn(["sh", "-c", script], folder / "log", {**os.environ, **own}, start_new_session=True)
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            with suppress(httpx.HTTPError):
                if self._ask("GET", "/overview").is_success:
                    return self
            assert time.monotonic() < deadline, (folder / "log").read_text(errors="replace")[-2000:]
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        super().stop()

    def declare(self, queue: str) -> None:
        """Make a queue, to which the default exchange routes by its name."""
        self._ask("PUT", f"/queues/%2F/{queue}", {"durable": True}).raise_for_status()

    def publish(self, queue: str, texts: Sequence[str]) -> None:
        for text in texts:
            sent = {"properties": {}, "routing_key": queue, "payload": text, "payload_encoding": "string"}
            self._ask("POST", "/exchanges/%2F/amq.default/publish", sent).raise_for_status()

    def messages(self, queue: str) -> list[str]:
        """All that wait in the queue, which stay there."""
        asked = {"count": 100_000, "ackmode": "ack_requeue_true", "encoding": "auto"}
        return [each["payload"] for each in self._ask("POST", f"/queues/%2F/{queue}/get", asked).raise_for_status().json()]

    def _ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        return httpx.request(method, f"http://{LOOPBACK}:{self._http}/api{path}", json=body, auth=("guest", "guest"), timeout=HANG_SECONDS)
