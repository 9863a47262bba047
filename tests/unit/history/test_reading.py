from datetime import UTC
from pathlib import Path

import pytest

from ottla.history.reading import Sources, gather
from ottla.history.sources.evidence import SourceError

LOGS = Path(__file__).parents[2] / "data" / "logs"


def test_logs_are_read_and_what_was_read_is_said() -> None:
    sources = Sources(broker_logs=[str(LOGS / "apache-kafka-*.log")], client_logs=[str(LOGS / "java-*.log")])
    gathered = gather(sources, zone=UTC)
    assert {item.source for item in gathered.evidence} == {"broker-log", "client-log"}
    assert any("lines were understood" in note for note in gathered.notes)
    assert any("clock of" in note for note in gathered.notes)


def test_only_the_wanted_groups_are_kept() -> None:
    sources = Sources(broker_logs=[str(LOGS / "apache-kafka-4.3.0.log")], groups=["java-coop"])
    assert {item.group for item in gather(sources, zone=UTC).evidence} <= {"java-coop", None}


@pytest.mark.parametrize("sources", [Sources(archives=["/nowhere"]), Sources(offsets_topics=["/nowhere/*"])])
def test_a_directory_that_is_not_there_is_said(sources: Sources) -> None:
    with pytest.raises(SourceError, match="no such directory"):
        gather(sources, zone=UTC)


def test_a_log_of_another_program_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_bytes(b"hello\n\x00\xff\x1b[31m\n" * 100)
    gathered = gather(Sources(broker_logs=[str(tmp_path / "other.log")]), zone=UTC)
    assert gathered.evidence == []
    assert "not a Kafka log" in gathered.notes[0]


def test_whether_a_source_is_named() -> None:
    assert not Sources(groups=["g"])
    assert Sources(archives=["a"])
