"""The properties file of --command-config."""

from pathlib import Path

import pytest

from ottla.cli.groups.client_config import read_client_config
from ottla.cli.groups.failures import CommandFailed


def test_a_plain_connection(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=me\nsecurity.protocol=plaintext\nrequest.timeout.ms=5000\n")
    assert read_client_config(str(path))["client.id"] == "me"
    assert read_client_config(None) == {}


@pytest.mark.parametrize(
    "line", ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.truststore.location=/x", "security.providers=x"]
)
def test_security_is_refused_by_name(tmp_path: Path, line: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"client.id=me\n{line}\n")
    with pytest.raises(CommandFailed) as raised:
        read_client_config(str(path))
    assert str(raised.value) == f"{path} sets {line}, but Ottla connects without security only (security.protocol=PLAINTEXT)"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"java\.nio\.file\.NoSuchFileException: /no/such/file"):
        read_client_config("/no/such/file")
    with pytest.raises(CommandFailed, match="Is a directory"):
        read_client_config(str(tmp_path))
