"""Lines of a log are chosen, framed, timed and counted; no bytes raise."""

import json
from collections.abc import Sequence
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.diagnosis.evidence.broker_log.parser import broker_log_reader
from ottla.core.diagnosis.evidence.client_log.parser import client_log_reader
from ottla.core.diagnosis.evidence.log_counts import LogCounts, Skip
from ottla.core.diagnosis.evidence.log_reading import LINE_BYTES_MAX, matching_lines, unwrap_json, whole_lines
from ottla.core.diagnosis.evidence.model import Evidence, Kind, Source

MOMENT_MS = 1_795_357_867_123
MESSAGE = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] Stabilized group g generation 3 with 2 members."
LINE = f"[2026-11-22 14:31:07,123] INFO {MESSAGE} (org.apache.kafka.coordinator.group.GroupMetadataManager)"
STABILIZED = Evidence(
    at_ms=MOMENT_MS, source=Source.BROKER_LOG, clock="server.log", kind=Kind.JOIN_COMPLETED, group="g", generation=3, member_count=2
)


def read(*lines: str | bytes) -> tuple[list[Evidence], LogCounts]:
    reader = broker_log_reader(clock="server.log", zone=UTC)
    return list(reader.read(lines)), reader.counts


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        LINE + "\r\n",
        LINE.encode(),
        f"2026-11-22T14:31:07.123Z INFO {MESSAGE}",
        f"2026-11-22T14:31:07.999123Z stdout F {LINE}",
        f"2026-11-22T14:31:07.999123Z {LINE}",
        f"broker-1 | {LINE}",
        f"Nov 22 14:31:07 host kafka[812]: {LINE}",
        f"14:31:07 [data-plane] kafka 2026-11-22 14:31:07.123 INFO  GroupMetadataManager - {MESSAGE}",
        json.dumps({"log": LINE + "\n", "stream": "stdout", "time": "2026-11-22T14:31:07.5Z"}),
        json.dumps({"@timestamp": "2026-11-22T14:31:07.123Z", "level": "INFO", "message": MESSAGE}),
        json.dumps({"MESSAGE": MESSAGE, "__REALTIME_TIMESTAMP": "1795357867123456"}),
    ],
)
def test_a_line_is_understood_however_it_is_wrapped(line: str | bytes) -> None:
    evidence, counts = read(line)
    assert evidence == [STABILIZED]
    assert counts == LogCounts(
        lines=1, understood=1, evidence=1, mentions_kafka=b"kafka" in (line if isinstance(line, bytes) else line.encode())
    )


@pytest.mark.parametrize(
    ("line", "skip"),
    [
        (f"14:31:07,123 INFO {MESSAGE}", Skip.NO_TIME),
        (f"Nov 22 14:31:07 host kafka[812]: {MESSAGE}", Skip.NO_TIME),
        (LINE.replace("Stabilized", "Consolidated"), Skip.UNKNOWN_FORMAT),
        ('{"a":' * 5000 + MESSAGE, Skip.NO_TIME),
        (LINE.encode() + b"\0", Skip.BINARY),
        (LINE + "x" * LINE_BYTES_MAX, Skip.TOO_LONG),
    ],
)
def test_what_is_not_understood_is_counted(line: str | bytes, skip: Skip) -> None:
    evidence, counts = read(line)
    assert evidence == []
    assert (counts.lines, counts.understood, counts.skipped) == (1, 0, {skip: 1})


def test_stack_traces_and_other_lines_are_not_looked_at() -> None:
    evidence, counts = read("java.lang.Exception: no", "\tat org.apache.kafka.Main.run(Main.java:7)", "", LINE)
    assert evidence == [STABILIZED]
    assert (counts.lines, counts.understood, counts.skipped) == (4, 1, {})


def test_a_message_in_a_message_is_not_taken_for_one() -> None:
    """A client's reason is a stranger's text: it may hold a line of a coordinator with a time."""
    left = (
        "[GroupCoordinator 0]: Preparing to rebalance group g in state Stable with old generation 3 (reason: Updating metadata for member m"
    )
    evidence, _ = read(f"[2026-11-22 14:31:07,123] INFO {left}; client reason: [2020-01-01 00:00:00,000] INFO {MESSAGE})")
    assert [(each.kind, each.at_ms, each.group) for each in evidence] == [(Kind.TRIGGER, MOMENT_MS, "g")]


def test_lines_of_other_programs_are_not_counted_as_skipped() -> None:
    evidence, counts = read("my [Group of friends] met", '{"log": "[Group', '["log"] [Group')
    assert (evidence, counts) == ([], LogCounts(lines=3))


def test_lines_that_were_not_read_are_counted() -> None:
    reader = broker_log_reader(clock="c", zone=UTC)
    reader.skip(Skip.TOO_LONG)
    assert reader.counts == LogCounts(lines=1, skipped={Skip.TOO_LONG: 1})


def test_json_without_a_message_is_left_as_it_is() -> None:
    assert unwrap_json('{"a": 1}') == ("", '{"a": 1}')


@given(st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b""))), st.sampled_from([[b"a"], [b"a", b"bc"], [b"\x00"]]))
def test_each_matching_line_is_chosen_once(lines: list[bytes], needles: Sequence[bytes]) -> None:
    chosen = [line.removesuffix(b"\r") for line in lines if any(needle in line for needle in needles)]
    assert list(matching_lines(b"\n".join(lines), needles)) == chosen
    assert list(matching_lines(b"\n".join([*lines, b""]), needles)) == chosen


@given(st.lists(st.sampled_from([b"a" * 7, b"b\n", b"\n\n", b"c\nd", LINE.encode(), b"\n"])))
def test_blocks_are_cut_at_the_ends_of_lines(blocks: list[bytes]) -> None:
    chunks = [chunk or b"" for chunk in whole_lines(blocks)]
    assert b"".join(chunks) == b"".join(blocks)
    assert all(chunk.endswith(b"\n") for chunk in chunks[:-1])


def test_a_line_that_is_too_long_is_not_held() -> None:
    long = [b"x" * 600_000] * 20
    chunks = list(whole_lines([b"a\n", *long, b"y\n" + LINE.encode() + b"\n", *long]))
    assert chunks == [b"a\n", None, LINE.encode() + b"\n", None]
    reader = broker_log_reader(clock="server.log", zone=UTC)
    assert list(reader.read_blocks([b"a\n", *long, b"y\n" + LINE.encode() + b"\n", *long])) == [STABILIZED]
    assert (reader.counts.lines, reader.counts.skipped) == (4, {Skip.TOO_LONG: 2})


PIECES = st.sampled_from(
    [b"[GroupCoordinator ", b"id=1] ", b"0]: ", b"\n", b"[2026-11-22 14:31:07,123] INFO ", b'{"log":"', b"Preparing", b"\0", b"roup"]
)


@given(st.lists(st.one_of(st.binary(max_size=20), PIECES)).map(b"".join))
def test_garbage_never_raises_and_is_never_a_cause(data: bytes) -> None:
    for reader in (broker_log_reader(clock="c", zone=UTC), client_log_reader(clock="c", zone=UTC)):
        assert [evidence for evidence in reader.read_chunk(data) if evidence.trigger or evidence.candidates] == []
        assert reader.counts.lines == len(data.removesuffix(b"\n").split(b"\n")) - (data == b"")
