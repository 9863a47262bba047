"""Logs of real clients beside an Apache Kafka 4.3.0, each alone and all mixed, are understood."""

from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.client_log.parser import ClientLogParser, client_log_reader
from ottla.core.diagnosis.evidence.model import Evidence, Kind

LOGS = Path(__file__).parents[5] / "data" / "logs"


def read(*names: str) -> list[Evidence]:
    reader = client_log_reader(clock="c", zone=UTC)
    evidence = list(reader.read_chunk(b"".join((LOGS / f"{name}.log").read_bytes() for name in names)))
    assert reader.counts.skipped == {}
    return evidence


@pytest.mark.parametrize(
    ("name", "generations"),
    [("java-4.3.0", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]), ("kafka-python-3.0", [1, 3, 4]), ("aiokafka-0.14", [1, 4, 5])],
)
def test_generations_that_clients_joined(name: str, generations: list[int]) -> None:
    joined = {
        each.generation
        for each in read(name)
        if each.kind is Kind.CLIENT_JOINED and each.group in ("java-classic", "kafka-python", "aiokafka")
    }
    assert sorted(joined, key=lambda generation: generation or 0) == generations


@pytest.mark.parametrize("name", ["java-4.3.0", "kafka-python-3.0", "aiokafka-0.14", "librdkafka-2.16"])
def test_each_client_says_that_it_was_not_polled(name: str) -> None:
    kinds = (Kind.CLIENT_LOST, Kind.CLIENT_REJOINS, Kind.CLIENT_LEAVES)
    assert Cause.POLL_TIMEOUT in {each.trigger for each in read(name) if each.kind in kinds}


def test_logs_of_all_clients_may_be_in_one_file() -> None:
    """Only what names no group, and had it from being alone, knows less."""
    names = ("java-4.3.0", "kafka-python-3.0", "aiokafka-0.14", "librdkafka-2.16")
    together, alone = read(*names), [each for name in names for each in read(name)]
    assert [(each.at_ms, each.kind, each.trigger) for each in together] == [(each.at_ms, each.kind, each.trigger) for each in alone]


def test_a_line_without_a_time_is_counted() -> None:
    reader = client_log_reader(clock="c", zone=UTC)
    assert list(reader.read(["WARNING:kafka.coordinator:Heartbeat session expired, marking coordinator dead"])) == []
    assert str(reader.counts) == "0 of 1 lines were understood; skipped: 1 no time, or no date"


def test_lines_of_the_application_are_no_clients() -> None:
    reader = client_log_reader(clock="c", zone=UTC)
    assert list(reader.read(["2026-11-22 14:31:07,123 INFO app a group of people polled", "2026-11-22 14:31:07,123 my heartbeat"])) == []
    assert (reader.counts.lines, reader.counts.understood, reader.counts.skipped) == (2, 0, {})


@given(st.text(max_size=300))
def test_any_message_is_read(text: str) -> None:
    parser = ClientLogParser()
    for start in (
        "[Consumer clientId=c, groupId=g] ",
        "REBALANCE|c#consumer-1| [thrd:main]: Group ",
        "(Re-)joining group ",
        "Heartbeat failed",
        "",
    ):
        parser.find(start + text)
        parser.parse(start + text)
