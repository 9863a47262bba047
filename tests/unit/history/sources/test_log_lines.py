"""Lines of logs, and clients' reasons in them."""

import json
from collections.abc import Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.client_log import client_log_reader
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.sources.log_lines import (
    ANY_LEAVE,
    ANY_REJOIN,
    LINE_BYTES_MAX,
    NOTHING,
    REMOVED_BEFORE,
    LogClock,
    LogCounts,
    Skip,
    first_join_meaning,
    leave_meaning,
    matching_lines,
    rejoin_meaning,
    unwrap_json,
    whole_lines,
)


def test_a_log_of_another_program_is_named_so() -> None:
    assert str(LogCounts(lines=12_000)) == "not a Kafka log: 0 of 12,000 lines were understood"


def test_a_kafka_log_without_groups_is_named_so() -> None:
    assert str(LogCounts(lines=5, mentions_kafka=True)) == "no lines about groups: 0 of 5 lines were understood"


def test_a_log_whose_lines_were_skipped_is_not_said_to_be_of_another_program() -> None:
    assert str(LogCounts(lines=9, skipped={Skip.NO_TIME: 9})) == "0 of 9 lines were understood; skipped: 9 no time, or no date"


def test_reasons_are_listed() -> None:
    counts = LogCounts(lines=9, understood=5, skipped={Skip.NO_TIME: 2, Skip.TOO_LONG: 1})
    assert str(counts) == "5 of 9 lines were understood; skipped: 2 no time, or no date, 1 too long"


def test_counts_of_two_logs_add_up() -> None:
    one = LogCounts(lines=5, understood=2, evidence=1, skipped={Skip.BINARY: 1})
    other = LogCounts(lines=7, understood=1, skipped={Skip.BINARY: 2, Skip.TOO_LONG: 1}, mentions_kafka=True)
    assert one + other == LogCounts(lines=12, understood=3, evidence=1, skipped={Skip.TOO_LONG: 1, Skip.BINARY: 3}, mentions_kafka=True)


# Times of log lines in the layouts that people have: each gives the same moment.

MOMENT_MS = 1_795_357_867_123
"""2026-11-22 14:31:07.123 UTC."""
TO_THE_SECOND_MS = MOMENT_MS - 123


@pytest.mark.parametrize(
    "head",
    [
        "[2026-11-22 14:31:07,123] INFO ",
        "2026-11-22 14:31:07.123 INFO ",
        "2026-11-22T14:31:07.123Z INFO ",
        "2026-11-22T14:31:07,123+00:00 ",
        "[2026-11-22 15:31:07,123 +0100] INFO ",
        "2026-11-22T09:31:07.123456-05:00 INFO ",
        "[2026-11-22 11:01:07,123 -0330] INFO ",
        "2026-11-22T14:31:07.123456789Z stdout F ",
        "%4|1795357867.123|MAXPOLL|c#consumer-1| [thrd:main]: ",
        "kafka-1  | [2026-11-22 14:31:07,123] WARN ",
        "[pod/kafka-0/kafka] [2026-11-22 14:31:07,123] INFO ",
        "Nov 22 14:31:07 host kafka-server-start.sh[812]: [2026-11-22 14:31:07,123] INFO ",
    ],
)
def test_the_time_is_found_in_any_layout(head: str) -> None:
    assert LogClock(UTC).find_ms(head) == MOMENT_MS


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8))])
def test_a_collectors_zone_is_taken_for_the_programs_time(zone: tzinfo) -> None:
    """The program in the container has local time, the collector UTC; it may write a little later."""
    assert LogClock(zone).find_ms("2026-11-22T14:31:09.5Z stderr F [2026-11-22 20:16:07,123] INFO ") == MOMENT_MS


def test_a_time_without_fractions_has_whole_seconds() -> None:
    assert LogClock(UTC).find_ms("2026-11-22 14:31:07 INFO ") == TO_THE_SECOND_MS


@pytest.mark.parametrize(
    "head",
    [
        "",
        "14:31:07,123 INFO ",
        "Nov 22 14:31:07 host ",
        "[2026-13-22 14:31:07,123] ",
        "[2026-02-30 14:31:07,123]",
        "2026-99-99T99:99:99Z ",
        "INFO:kafka:",
    ],
)
def test_what_is_no_time_with_a_date_gives_none(head: str) -> None:
    assert LogClock(UTC).find_ms(head) is None


def test_a_time_without_a_zone_is_in_the_given_zone() -> None:
    berlin = LogClock(ZoneInfo("Europe/Berlin"))
    assert berlin.find_ms("[2026-11-22 15:31:07,123] INFO ") == MOMENT_MS
    assert berlin.find_ms("[2026-07-01 12:00:00,000] ") == LogClock(UTC).find_ms("[2026-07-01 10:00:00,000] ")


@given(st.text(max_size=80))
def test_any_text_is_read(head: str) -> None:
    LogClock(UTC).find_ms(head)


@given(st.from_regex(r"\A\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{1,9}( ?Z|[+-]\d\d:?\d\d)?\Z"))
def test_any_digits_are_read(head: str) -> None:
    LogClock(UTC).find_ms(head)


# Lines of a log are chosen, framed, timed and counted; no bytes raise.

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


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("the consumer is being closed", Cause.LEAVE_CLOSE),
        ("consumer poll timeout has expired.", Cause.POLL_TIMEOUT),
        ("worker poll timeout has expired.", Cause.POLL_TIMEOUT),
        ("the consumer unsubscribed from all topics", Cause.LEAVE_CLOSE),
        ("member was removed by an admin", Cause.ADMIN),
    ],
)
def test_reasons_of_leaving(reason: str, cause: Cause) -> None:
    assert leave_meaning(reason) == (cause, ())


def test_a_leave_without_a_reason_may_be_several_things() -> None:
    assert leave_meaning("not provided") == leave_meaning("") == ANY_LEAVE
    assert leave_meaning("drain").candidates == (Cause.ADMIN, Cause.LEAVE_CLOSE)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("cached metadata has changed from (version4: {a=1}) at the beginning of the rebalance to (version5: {a=2})", Cause.TOPIC_CHANGE),
        ("subscription has changed from [a] at the beginning of the rebalance to [a, b]", Cause.SUBSCRIPTION),
        ("need to revoke partitions [a-0] as indicated by the current assignment and re-join", Cause.COOP_FOLLOWUP),
        ("rebalance enforced by user", Cause.ENFORCED),
        ("rebalance failed due to CoordinatorLoadInProgressException", Cause.COORDINATOR_MOVE),
        ("rebalance failed due to 'The coordinator is loading.' (CoordinatorLoadInProgressException)", Cause.COORDINATOR_MOVE),
        ("rebalance failed due to class org.apache.kafka.common.errors.FencedInstanceIdException", Cause.STATIC_FENCED),
    ],
)
def test_reasons_of_rejoining(reason: str, cause: Cause) -> None:
    assert rejoin_meaning(reason) == (cause, ())


def test_other_reasons_of_rejoining() -> None:
    assert rejoin_meaning("not provided") == rejoin_meaning("") == ANY_REJOIN
    assert rejoin_meaning("group is already rebalancing") == NOTHING
    assert rejoin_meaning("rebalance failed due to RebalanceInProgressException") == NOTHING
    assert rejoin_meaning("encountered UNKNOWN_MEMBER_ID from HEARTBEAT response") == REMOVED_BEFORE
    assert rejoin_meaning("because I can").candidates == (Cause.ENFORCED, *ANY_REJOIN.candidates)


def test_a_new_member_may_come_back() -> None:
    joins = (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC)
    assert (
        first_join_meaning("not provided").candidates
        == first_join_meaning("need to re-join with the given member-id: m").candidates
        == joins
    )
    assert first_join_meaning("encountered ILLEGAL_GENERATION from SYNC_GROUP response") == REMOVED_BEFORE


def test_what_a_member_measured_narrows_down_why_it_was_removed() -> None:
    removed = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    assert rejoin_meaning(f"{removed} [process stopped: 6000 of 7000 ms without a heartbeat]") == (Cause.EXPIRE_HEARTBEAT, ())
    late = f"{removed} [slow processing: a rebalance waited 6000 ms for the next poll]"
    assert rejoin_meaning(late) == first_join_meaning(late) == (None, (Cause.JOIN_TIMEOUT, Cause.POLL_TIMEOUT))
    left = "consumer pro-actively leaving the group [application blocked: no poll for 6001 ms]"
    assert rejoin_meaning(left) == first_join_meaning(left) == (Cause.POLL_TIMEOUT, ())
    assert rejoin_meaning(f"{removed} [bad weather: 1]") == REMOVED_BEFORE


def test_what_a_member_measured_changes_no_other_meaning() -> None:
    evidence = "[network: no heartbeat answered for 6000 ms]"
    for text in ("need to re-join with the given member-id: m", "group is already rebalancing", "cached metadata has changed"):
        assert rejoin_meaning(f"{text} {evidence}") == rejoin_meaning(text)
    assert leave_meaning("consumer poll timeout has expired. [GIL held: no poll for 6001 ms]") == (Cause.POLL_TIMEOUT, ())


@given(st.text())
def test_any_text_means_one_cause_or_some(reason: str) -> None:
    for meaning in (leave_meaning(reason), rejoin_meaning(reason), first_join_meaning(reason)):
        assert not (meaning.trigger and meaning.candidates)
