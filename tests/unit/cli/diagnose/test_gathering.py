from datetime import UTC
from pathlib import Path

import pytest

from ottla.cli.diagnose.gathering import SourceOptions, gather
from ottla.cli.diagnose.offsets_topic import SourceError

LOGS = Path(__file__).parents[3] / "data" / "logs"


def test_logs_are_read_and_what_was_read_is_said() -> None:
    options = SourceOptions(broker_logs=[str(LOGS / "apache-kafka-*.log")], client_logs=[str(LOGS / "java-*.log")])
    gathered = gather(options, zone=UTC)
    assert {item.source for item in gathered.evidence} == {"broker-log", "client-log"}
    assert any("lines were understood" in note for note in gathered.notes)
    assert any("clock of" in note for note in gathered.notes)


def test_only_the_wanted_groups_are_kept() -> None:
    options = SourceOptions(broker_logs=[str(LOGS / "apache-kafka-4.3.0.log")], groups=["java-coop"])
    assert {item.group for item in gather(options, zone=UTC).evidence} <= {"java-coop", None}


@pytest.mark.parametrize("options", [SourceOptions(archives=["/nowhere"]), SourceOptions(offsets_topics=["/nowhere/*"])])
def test_a_directory_that_is_not_there_is_said(options: SourceOptions) -> None:
    with pytest.raises(SourceError, match="no such directory"):
        gather(options, zone=UTC)


def test_a_log_of_another_program_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_bytes(b"hello\n\x00\xff\x1b[31m\n" * 100)
    gathered = gather(SourceOptions(broker_logs=[str(tmp_path / "other.log")]), zone=UTC)
    assert gathered.evidence == []
    assert "not a Kafka log" in gathered.notes[0]


def test_whether_a_source_is_named() -> None:
    assert not SourceOptions(groups=["g"]).names_a_source
    assert SourceOptions(archives=["a"]).names_a_source
