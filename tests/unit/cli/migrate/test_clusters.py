"""The settings of a cluster from a file of properties."""

from pathlib import Path

import click
import pytest

from ottla.cli.migrate.clusters import cluster


def made(tmp_path: Path, text: str) -> object:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return cluster("h:1", str(file), option="--bootstrap-server")


def test_reads_and_producers_get_what_is_theirs(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nclient.id=me\ncompression.type=zstd\nfetch.max.wait.ms=7\nsome.other=1\n")
    found = cluster("h:1", str(file), option="--bootstrap-server")
    producer = dict(found.producer.properties)
    assert (found.client.client_id, found.client.fetch_max_wait_ms, found.client.security.uses_tls) == ("me", 7, True)
    assert (producer["client.id"], producer["compression.type"], producer["security.protocol"]) == ("me", "zstd", "SSL")
    assert producer["bootstrap.servers"] == "h:1"


def test_without_a_file_records_with_a_header_more_are_taken() -> None:
    found = cluster("h:1", None, option="--bootstrap-server")
    assert dict(found.producer.properties)["message.max.bytes"] == 104_857_600
    assert found.client.client_id == "ottla-migrate"


@pytest.mark.parametrize(
    ("text", "words"),
    [("security.protocol=X", "security.protocol must be one of"), ("linger.ms=x", 'The option "kafka.linger.ms" must be')],
)
def test_a_file_that_makes_no_sense(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(click.ClickException, match=words):
        made(tmp_path, text)


def test_a_file_that_does_not_exist() -> None:
    with pytest.raises(click.ClickException, match="NoSuchFileException: nowhere"):
        cluster("h:1", "nowhere", option="--bootstrap-server")


def test_an_address_that_is_none() -> None:
    with pytest.raises(click.BadParameter, match=r"'nonsense' is no host:port: write for example 127\.0\.0\.1:9092"):
        cluster("nonsense", None, option="--to-bootstrap-server")
