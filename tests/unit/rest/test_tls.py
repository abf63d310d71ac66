"""Keys that are given as text: in the process's memory, and on no disk."""

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

from airflow_provider_connect.rest.server import load_tls

PEM = "-----BEGIN CERTIFICATE-----\\ncanary\\n-----END CERTIFICATE-----"
_PROGRAM = f"""
import os, sys
from airflow_provider_connect.rest.server import load_tls
tls = load_tls({{"ssl.keystore.certificate.chain": {PEM!r}, "ssl.keystore.key": "canary-key", "ssl.keystore.type": "PEM"}})
print(open(tls.key).read(), flush=True)
sys.stdin.read()
"""


def test_text_is_read_as_a_file() -> None:
    tls = load_tls({"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": "canary-key", "ssl.keystore.type": "PEM"})
    assert Path(tls.certificates).read_text() == PEM.replace("\\n", "\n")
    for _ in range(2):  # it may be opened more than once
        assert Path(tls.key or "").read_text() == "canary-key"


def test_the_ssl_module_reads_such_a_file(tmp_path: Path) -> None:
    tls = load_tls({"ssl.keystore.certificate.chain": _pem(tmp_path), "ssl.keystore.type": "PEM"})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificates)


def test_a_key_is_on_no_disk_whatever_ends_the_process(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "canary-key\n"
        assert list(tmp_path.iterdir()) == []
        child.send_signal(number)
        child.wait()
        assert list(tmp_path.iterdir()) == []


def _pem(folder: Path) -> str:
    """A key and its certificate in one text."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k", "-out", "c", "-days", "2", "-subj", "/CN=x"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return (folder / "k").read_text() + (folder / "c").read_text()
