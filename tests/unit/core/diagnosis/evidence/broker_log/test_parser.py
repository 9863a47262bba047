"""Group ids, client ids and reasons are strangers' text and come out as they went in; a log of Apache Kafka 4.3.0 is understood."""

import gzip
import re
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.diagnosis.evidence.broker_log.parser import BrokerLogParser, broker_log_reader
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.model import Evidence, Kind

LOG = Path(__file__).parents[5] / "data" / "logs" / "apache-kafka-4.3.0.log"
RECORDED = Path(__file__).parents[5] / "data" / "diagnosis"
SCENARIOS = Path(__file__).parents[5] / "scenarios"
PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
LOGGER = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
UUID = "0a1b2c3d-0000-4000-8000-000000000001"

NASTY = [
    "in state",
    " in group ",
    ") members.",
    "(reason: ",
    " with ",
    "generation 3",
    "'",
    '"',
    "[",
    "]",
    "] ",
    "(",
    ")",
    ", ",
    ".",
    " ",
    "null",
    "ä",
    "{}",
]
NAMES = (
    st.lists(st.one_of(st.sampled_from(NASTY), st.text("abc-_.9", max_size=4)), min_size=1, max_size=6)
    .map("".join)
    .map(lambda name: f"g{name}g")
)
REASONS = st.lists(st.one_of(st.sampled_from([*NASTY, "; client reason: "]), st.text("abc", max_size=4)), max_size=6).map("".join)
NUMBERS = st.integers(0, 2**31 - 1)


def parse_one(message: str) -> Evidence | None:
    reader = broker_log_reader(clock="c", zone=UTC)
    found = list(reader.read([f"[2026-11-22 14:31:07,123] INFO {PREFIX}{message}{LOGGER}"]))
    return found[0] if len(found) == 1 else None


@given(group=NAMES, generation=NUMBERS, count=NUMBERS)
def test_generations_of_any_group(group: str, generation: int, count: int) -> None:
    stable = parse_one(f"Stabilized group {group} generation {generation} with {count % 10**6} members.")
    assert stable is not None
    assert (stable.kind, stable.group, stable.generation, stable.member_count) == (Kind.JOIN_COMPLETED, group, generation, count % 10**6)
    empty = parse_one(f"Group {group} with generation {generation} is now empty.")
    assert empty is not None
    assert (empty.kind, empty.group, empty.generation) == (Kind.EMPTIED, group, generation)


@given(group=NAMES, client=NAMES, reason=REASONS, generation=NUMBERS)
def test_joins_of_any_client(group: str, client: str, reason: str, generation: int) -> None:
    member_id = f"{client}-{UUID}"
    why = f"Adding new member {member_id} with group instance id null; client reason: {reason}"
    join = parse_one(f"Preparing to rebalance group {group} in state PreparingRebalance with old generation {generation} (reason: {why}).")
    assert join is not None
    assert (join.kind, join.group, join.generation, join.reason) == (Kind.TRIGGER, group, generation, why)
    assert (join.member_id, join.client_id, join.instance_id, join.client_reason) == (member_id, client, None, reason)


@given(group=NAMES, client=NAMES)
def test_members_of_any_group_and_client(group: str, client: str) -> None:
    member_id = f"{client}-{UUID}"
    for message, kind in (
        (f"Member {member_id} in group {group} has failed, removing it from the group.", Kind.MEMBER_REMOVED),
        (f"Pending dynamic member with id {member_id} joins group {group} in Stable state. Adding to the group now.", Kind.MEMBER_JOINED),
        (f"[GroupId {group}] Member {member_id} left the consumer group.", Kind.MEMBER_LEFT),
        (f"[GroupId {group}] Member {member_id} joins the consumer group using the consumer protocol.", Kind.MEMBER_JOINED),
    ):
        evidence = parse_one(message)
        assert evidence is not None
        assert (evidence.kind, evidence.group, evidence.member_id) == (kind, group, member_id)


@given(group=NAMES, client=NAMES, generation=NUMBERS)
def test_assignments_of_any_leader(group: str, client: str, generation: int) -> None:
    leader = f"{client}-{UUID}"
    evidence = parse_one(
        f"Assignment received from leader {leader} for group {group} for generation {generation}. "
        "The group has 3 members, 0 of which are static."
    )
    assert evidence is not None
    assert (evidence.kind, evidence.group, evidence.generation, evidence.leader) == (Kind.SYNC_COMPLETED, group, generation, leader)


@pytest.mark.parametrize("text", ["", "]", "no prefix", "[GroupCoordinator id=1]", PREFIX, f"{PREFIX}Something else happened."])
def test_other_messages_are_not_understood(text: str) -> None:
    assert BrokerLogParser().parse(text) is None


@given(st.text(max_size=200))
def test_any_message_is_read(text: str) -> None:
    parser = BrokerLogParser()
    for start in ("Preparing to rebalance group ", "Member ", "[GroupId ", "[Group ", "Static member ", "Group "):
        parser.parse(PREFIX + start + text)


def test_a_hostile_line_is_refused_soon() -> None:
    """Long ids with the text between them a thousand times: the patterns' lengths are limited."""
    line = f"Member {'x in group ' * 50_000} has failed, removing it from the grou"
    assert BrokerLogParser().parse(PREFIX + line) is None


def test_the_log_of_an_apache_kafka_is_understood() -> None:
    reader = broker_log_reader(clock="server.log", zone=UTC)
    evidence = list(reader.read_chunk(LOG.read_bytes()))
    assert reader.counts.skipped == {}
    assert reader.counts.mentions_kafka
    assert reader.counts.understood > 150
    assert {each.group for each in evidence} == {
        "java-classic",
        "java-static",
        "java-next",
        "next-static",
        "java-coop",
        "rd group (a) in state",
        "kafka-python",
        "aiokafka",
    }
    rounds = [each.generation for each in evidence if each.group == "java-classic" and each.kind is Kind.SYNC_COMPLETED]
    assert rounds == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    causes = Counter(each.trigger for each in evidence if each.group == "java-classic" and each.kind is Kind.TRIGGER)
    assert causes[Cause.POLL_TIMEOUT] == 1
    assert causes[Cause.EXPIRE_HEARTBEAT] == 1
    assert causes[Cause.LEAVE_CLOSE] == 2
    static = [(each.kind, each.group) for each in evidence if each.kind in (Kind.STATIC_REPLACED, Kind.STATIC_FENCED)]
    assert static == [
        (Kind.STATIC_REPLACED, "java-static"),
        (Kind.STATIC_REPLACED, "next-static"),
        (Kind.STATIC_FENCED, "next-static"),
        (Kind.STATIC_REPLACED, "java-static"),
        (Kind.STATIC_FENCED, "java-static"),
    ]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/broker.log.gz")), ids=lambda path: path.parent.name)
def test_each_line_of_the_recorded_incidents_is_understood(path: Path) -> None:
    reader = broker_log_reader(clock="server.log", zone=UTC)
    evidence = sum(1 for _ in reader.read_chunk(gzip.decompress(path.read_bytes())))
    assert evidence > 10
    assert reader.counts.skipped == {}


def test_each_line_of_ottlas_own_coordinator_is_understood() -> None:
    """The lines in the scenarios, which are compared with Apache Kafka's."""
    parser, messages = BrokerLogParser(), set()
    for path in SCENARIOS.rglob("*.txt"):
        messages |= {found[1] for found in re.finditer(r"^ *log {2,}(.*)$", path.read_text(), re.MULTILINE)}
    assert len(messages) > 100
    assert [message for message in sorted(messages) if parser.parse(PREFIX + message) is None] == []
