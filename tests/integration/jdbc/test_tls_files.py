"""Certificates that a URL names: below the worker's allowed folders they are used, elsewhere refused."""

import shutil
import ssl
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from airflow_provider_connect.connectors.jdbc.database.database_files import with_resolved_paths
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import tls_context
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths


def certificate(folder: Path, name: str) -> None:
    """A self-signed one of the loopback interface."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    path = tmp_path_factory.mktemp("tls")
    for name in ("server", "other"):
        certificate(path, name)
    return path


def test_postgresql_gets_the_file_that_a_link_leads_to(folder: Path) -> None:
    (folder / "link.pem").symlink_to(folder / "server.pem")
    url = parse_url(f"postgresql://db/x?sslmode=verify-full&sslrootcert={folder}/link.pem").within(AllowedPaths((str(folder),)))
    assert f"sslrootcert={quote(str(folder / 'server.pem'), safe='')}" in with_resolved_paths(url).adbc_uri.replace("/", "%2F")


@pytest.mark.parametrize("option", ["sslrootcert", "sslcert", "sslkey"])
def test_a_file_elsewhere_is_refused_for_postgresql(folder: Path, option: str) -> None:
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        with_resolved_paths(parse_url(f"postgresql://db/x?{option}=/etc/hostname").within(AllowedPaths((str(folder),))))


@pytest.mark.parametrize("option", ["serverSslCert", "ssl_ca", "ssl_cert", "ssl_key"])
def test_a_file_elsewhere_is_refused_for_mariadb(folder: Path, option: str) -> None:
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        with_resolved_paths(parse_url(f"jdbc:mariadb://db/x?{option}=/etc/hostname").within(AllowedPaths((str(folder),))))


@pytest.mark.parametrize(
    ("options", "mode", "checks_name"),
    [
        ("sslMode=trust", ssl.CERT_NONE, False),
        ("sslMode=verify-ca", ssl.CERT_REQUIRED, False),
        ("sslMode=verify-full", ssl.CERT_REQUIRED, True),
        ("serverSslCert={folder}/server.pem", ssl.CERT_REQUIRED, False),
        ("sslMode=verify-full&serverSslCert={folder}/server.pem", ssl.CERT_REQUIRED, True),
        ("sslMode=trust&ssl_cert={folder}/other.pem&ssl_key={folder}/other.key", ssl.CERT_NONE, False),
    ],
)
def test_what_mariadb_is_asked_for(folder: Path, options: str, mode: ssl.VerifyMode, *, checks_name: bool) -> None:
    context = tls_context(parse_url(f"jdbc:mariadb://db/x?{options.format(folder=folder)}"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (mode, checks_name)


def test_a_file_that_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(ConfigException, match=r"connection\.url: TLS cannot begin: No such file.*PEM"):
        tls_context(parse_url(f"jdbc:mariadb://db/x?serverSslCert={folder}/none.pem"))


@pytest.mark.parametrize("option", ["keyPassword", "ssl_key_password"])
def test_a_key_with_a_password_is_read(folder: Path, option: str) -> None:
    command = ["openssl", "rsa", "-aes256", "-passout", "pass:hush", "-in", str(folder / "other.key"), "-out", str(folder / "locked.key")]
    subprocess.run(command, check=True, capture_output=True)
    url = f"jdbc:mariadb://db/x?sslMode=trust&ssl_cert={folder}/other.pem&ssl_key={folder}/locked.key"
    assert tls_context(parse_url(f"{url}&{option}=hush")) is not None
    for end in ("", f"&{option}=wrong1"):
        with pytest.raises(ConfigException, match=r"connection\.url: TLS cannot begin") as raised:
            tls_context(parse_url(url + end))
        assert "wrong1" not in str(raised.value)


def test_postgresql_gets_the_password_of_a_key_and_no_message_has_it() -> None:
    url = parse_url("jdbc:postgresql://db/x?sslkey=/k&sslPassword=hu%26sh")
    assert "sslpassword=hu%26sh" in url.adbc_uri
    assert url.secrets == ("hu&sh", "hu%26sh")
    assert "hu" not in repr(url)
