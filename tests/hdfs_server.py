"""A name node and a data node of HDFS in one process, on free ports of the loopback interface."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import Self

from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]

from airflow_provider_connect.connectors.filesystem.stores.web_hdfs_store import WebHdfsStore
from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer, free_ports
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.spark.jar_cache import fetch_jars
from airflow_provider_connect.spark.java_runtime import find_java
from tests.conftest import CACHE
from tests.java_libraries import PINS

_JARS = ("org.apache.hadoop:hadoop-client-minicluster:3.5.0", "org.junit.jupiter:junit-jupiter-api:5.11.4")
_START = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_ANSWER_SECONDS = 240


class HdfsServer(OwnServer):
    """``port`` is that of WebHDFS."""

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        java = find_java(cache=CACHE)
        jars = fetch_jars(CACHE, "hdfs-3.5.0", _JARS, java, pins=PINS)
        self._folder = Path(tempfile.mkdtemp(prefix="hdfs-"))
        ports = ["-nnport", free_ports(1)[0], "-nnhttpport", self.port]
        data = f"-Dtest.build.data={self._folder}"
        self._spawn(
            [str(java.executable), "-Xmx500m", data, "-cp", f"{jars}/*", _START, "-nomr", *ports, "-datanodes", "1", "-format"],
            self._folder / "log",
        )
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                assert WebHdfsStore(LOOPBACK, self.port, "root", "", key="url", given="").create("up", b"up")
            except RetriableException as error:  # the data node comes after the name node
                if time.monotonic() > deadline:
                    raise AssertionError((self._folder / "log").read_text()) from error
                time.sleep(0.3)
            else:
                return self

    def settings(self, folder: str) -> dict[str, str]:
        """A connector's."""
        return {"url": f"webhdfs://{LOOPBACK}:{self.port}/{folder}", "hdfs.user": "root"}

    def files(self, folder: str) -> dict[str, bytes]:
        """The files below a folder by their paths there, as another client reads them."""
        cluster = WebHDFS(LOOPBACK, self.port, user="root", skip_instance_cache=True, use_listings_cache=False)
        paths = cluster.find(f"/{folder}")
        return {path.partition(f"/{folder}/")[2]: cluster.cat_file(path) for path in paths}
