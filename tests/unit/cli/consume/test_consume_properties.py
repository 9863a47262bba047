"""Tests of the consumer's properties."""

from pathlib import Path
from typing import Any

import pytest

from ottla.cli.consume.properties import Source, consumer_properties
from ottla.cli.groups.failures import CommandFailed
from ottla.client.consumer.properties import parse_properties


def properties(**given: Any) -> dict[str, Any]:
    found = dict(consumer_properties(Source(bootstrap_server="h:1", **given)))
    parse_properties(found)  # the consumer takes all of them
    return found


def test_without_a_group_nothing_is_committed() -> None:
    found = properties()
    assert (found["bootstrap.servers"], found["group.id"], found["enable.auto.commit"]) == ("h:1", "ottla-consume", "false")
    assert (found["enable.auto.offset.store"], found["enable.partition.eof"], found["auto.offset.reset"]) == (False, True, "earliest")
    assert properties(group="g", config=[("enable.auto.commit", "true")])["enable.auto.commit"] == "false"


def test_a_member_commits_what_is_stored() -> None:
    found = properties(group="g", is_member=True, reset="latest", isolation_level="read_uncommitted")
    assert "enable.auto.commit" not in found
    assert (found["group.id"], found["auto.offset.reset"], found["isolation.level"]) == ("g", "latest", "read_uncommitted")


def test_a_file_gives_way_to_single_settings(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\nfetch.min.bytes=7\nsession.timeout.ms=9000\ngroup.id=other\nacks=all\n")
    found = properties(command_config=str(file), config=[("fetch.min.bytes", "8")])
    assert (found["client.id"], found["fetch.min.bytes"], found["session.timeout.ms"]) == ("mine", "8", "9000")
    assert found["group.id"] == "ottla-consume"
    assert "acks" not in found


@pytest.mark.parametrize("name", ["group.id", "bootstrap.servers", "enable.auto.offset.store", "enable.partition.eof"])
def test_what_other_options_decide(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be set by --config"):
        properties(config=[(name, "x")])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="NoSuchFileException"):
        properties(command_config=str(tmp_path / "none"))
