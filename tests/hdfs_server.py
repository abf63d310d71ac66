"""HDFS in one process, on free ports of the loopback interface: a name node and a data node, or two name nodes of which one is active."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]

from airflow_provider_connect.connectors.filesystem.stores.web_hdfs_store import WebHdfsStore
from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer, free_ports
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from tests.conftest import CACHE
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

_JARS = ("org.apache.hadoop:hadoop-client-minicluster:3.5.0", "org.junit.jupiter:junit-jupiter-api:5.11.4")
_START = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"


def _java_and_jars() -> tuple[JavaRuntime, Path]:
    java = find_java(cache=CACHE)
    return java, fetch_jars(CACHE, "hdfs-3.5.0", _JARS, java, pins=PINS)


class HdfsServer(OwnServer):
    """``port`` is that of WebHDFS."""

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        java, jars = _java_and_jars()
        self._folder = Path(tempfile.mkdtemp(prefix="hdfs-"))
        ports = ["-nnport", free_ports(1)[0], "-nnhttpport", self.port]
        data = f"-Dtest.build.data={self._folder}"
        self._spawn(
            [str(java.executable), "-Xmx500m", data, "-cp", f"{jars}/*", _START, "-nomr", *ports, "-datanodes", "1", "-format"],
            self._folder / "log",
        )
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                assert WebHdfsStore([(LOOPBACK, self.port)], "root", "", key="url", given="").create("up", b"up")
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


class TwoNameNodes:
    """A cluster that has two name nodes, ``ports`` those of their WebHDFS. Both are on standby until one becomes ``active``."""

    def __init__(self) -> None:
        self.ports = free_ports(2)

    def __enter__(self) -> Self:
        java, jars = _java_and_jars()
        self._folder = Path(tempfile.mkdtemp(prefix="hdfs-pair-"))
        class_path = [*runtime_jars(CACHE, java), *sorted(jars.glob("*.jar"))]
        self._jvm = Jvm(java, class_path, heap="700m", hide=str, call_seconds=HANG_SECONDS)
        try:
            self._jvm.java.java.lang.System.setProperty("test.build.data", str(self._folder))
            hdfs: Any = self._jvm.java.org.apache.hadoop.hdfs
            nodes = getattr(hdfs, "MiniDFSNNTopology$NSConf")("pair")
            for number, port in enumerate(self.ports):
                node = getattr(hdfs, "MiniDFSNNTopology$NNConf")(f"node{number}")
                node.setHttpPort(port)
                nodes.addNN(node)
            topology = hdfs.MiniDFSNNTopology().addNameservice(nodes)
            builder = getattr(hdfs, "MiniDFSCluster$Builder")(hdfs.HdfsConfiguration()).nnTopology(topology).numDataNodes(1)
            self._cluster = builder.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def make_active(self, number: int) -> None:
        self._cluster.transitionToActive(number)
        self._cluster.waitActive(number)

    def make_standby(self, number: int) -> None:
        self._cluster.transitionToStandby(number)

    def end(self, number: int) -> None:
        """That name node's, for good."""
        self._cluster.shutdownNameNode(number)

    def settings(self, folder: str) -> dict[str, str]:
        """A connector's."""
        nodes = ",".join(f"{LOOPBACK}:{port}" for port in self.ports)
        return {"url": f"webhdfs://{nodes}/{folder}", "hdfs.user": "root"}
