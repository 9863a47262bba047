"""Groups: what holds for any bytes, any records, and any commands in any order."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.coordinator import FinishLoading, Resign
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.commands import Command, ForgetTopics, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.log.committed_offsets import CommittedOffsets, TopicOffsets, frame_records
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, decode, encode_key, encode_value
from ottla.groups.log.replayed_state import ReplayedState
from ottla.groups.settings import GroupSettings
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_records
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscribed_topics, parse_subscription
from ottla.text import java_hash
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.fuzz.mutation import mutate
from trials.scenarios.commands import parse_command
from trials.simulation.oracle import Oracle

text = st.text(max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
positive64 = st.integers(0, 2**63 - 1)
data = st.binary(max_size=40)
topic_ids = st.binary(min_size=16, max_size=16)

plain_offsets = st.builds(
    OffsetValue,
    offset=int64,
    leader_epoch=int32,
    metadata=text,
    commit_timestamp_ms=int64,
    expire_timestamp_ms=st.none(),
    topic_id=topic_ids | st.just(bytes(16)),
)
expiring_offsets = st.builds(
    OffsetValue,
    offset=int64,
    leader_epoch=st.just(-1),
    metadata=text,
    commit_timestamp_ms=int64,
    expire_timestamp_ms=positive64,
    topic_id=st.just(bytes(16)),
)
offset_records = st.builds(OffsetRecord, group_id=text, topic=text, partition=int32, value=st.none() | plain_offsets | expiring_offsets)
members = st.builds(
    MemberValue,
    member_id=text,
    instance_id=st.none() | text,
    client_id=text,
    client_host=text,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=int32,
    subscription=data,
    assignment=data,
)
registrations = st.builds(
    GroupMetadataValue,
    protocol_type=text,
    generation=int32,
    protocol=st.none() | text,
    leader=st.none() | text,
    current_state_timestamp_ms=int64,
    members=st.lists(members, max_size=4, unique_by=lambda member: member.member_id).map(tuple),
)
group_records = st.builds(GroupMetadataRecord, group_id=text, value=st.none() | registrations)


@given(offset_records | group_records)
def test_every_record_decodes_to_itself(record: OffsetRecord | GroupMetadataRecord) -> None:
    assert decode(encode_key(record), encode_value(record)) == record


@given(st.binary(max_size=30), st.none() | st.binary(max_size=80))
def test_any_bytes_give_a_record_or_peer_error(key: bytes, value: bytes | None) -> None:
    for prefix in (b"", b"\x00\x01", b"\x00\x02\x00\x01g"):
        for version in (b"", b"\x00\x00", b"\x00\x01", b"\x00\x03", b"\x00\x04"):
            with suppress(PeerError):
                decode(prefix + key, None if value is None else version + value)


@given(offset_records | group_records, st.randoms(use_true_random=False))
def test_mutated_records_give_a_record_or_peer_error(record: OffsetRecord | GroupMetadataRecord, rng: Random) -> None:
    key, value = encode_key(record), encode_value(record)
    with suppress(PeerError):
        decode(mutate(key, rng), value)
    with suppress(PeerError):
        decode(key, None if value is None else mutate(value, rng))


@given(st.lists(text, max_size=5), st.dictionaries(text, st.lists(int32, max_size=5), max_size=4), st.randoms(use_true_random=False))
def test_mutated_consumer_protocol_is_read_or_a_peer_error(topics: list[str], owned: dict[str, list[int]], rng: Random) -> None:
    subscription, assignment = mutate(encode_subscription(topics, owned), rng), mutate(encode_assignment(owned), rng)
    for parse, data in ((parse_subscription, subscription), (parse_subscribed_topics, subscription), (parse_assignment, assignment)):
        with suppress(PeerError):
            parse(data)


@given(st.binary(max_size=80))
def test_any_bytes_give_consumer_protocol_or_peer_error(metadata: bytes) -> None:
    for prefix in (b"", b"\x00\x00", b"\x00\x03\x00\x00\x00\x01"):
        for parse in (parse_subscription, parse_subscribed_topics, parse_assignment):
            with suppress(PeerError):
                parse(prefix + metadata)


partitions_by_topic = st.dictionaries(text, st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=4)


@given(text, st.integers(-(2**31), -1))
def test_a_negative_partition_is_a_peer_error(topic: str, number: int) -> None:
    with pytest.raises(PeerError, match="negative"):
        parse_assignment(encode_assignment({topic: [number]}))
    with pytest.raises(PeerError, match="negative"):
        parse_subscription(encode_subscription([topic], {topic: [number]}))


@given(st.lists(text, max_size=5), partitions_by_topic)
def test_what_a_member_writes_is_what_is_read(topics: list[str], owned: dict[str, list[int]]) -> None:
    subscription = parse_subscription(encode_subscription(topics, owned))
    assert list(subscription.topics) == topics
    assert {topic: list(numbers) for topic, numbers in subscription.owned.items()} == owned
    assert {topic: list(numbers) for topic, numbers in parse_assignment(encode_assignment(owned)).items()} == owned


@given(st.text(max_size=30), st.integers(1, 200))
def test_the_partition_is_always_one_of_the_topics(group_id: str, partitions: int) -> None:
    value = 0
    for unit in memoryview(group_id.encode("utf-16-le")).cast("H"):
        value = value * 31 + unit
    assert java_hash(group_id) % 2**32 == value % 2**32
    assert 0 <= coordinator_partition(group_id, partitions) < partitions


# Any requests in any order. Who asks is drawn as a number, and looked up among those whom the group knows: so requests meet.

ODD_JOINS = ["protocols=range:weather", "protocols=sticky:flights/range:flights", "protocols=other:x", "type=connect", "session=5"]
JOINS = ["", "", "", "", "", "", "old=yes", "old=yes", "old=yes", "skip=no", "rebalance=0", "session=6s rebalance=5s", *ODD_JOINS]
NOTICES = ["evict", "expire-member"]
VERBS = (
    ["join"] * 8 + ["sync"] * 8 + ["heartbeat", "commit", "commit", "leave", "anonymous", "fetch", "describe", "list", "delete", *NOTICES]
)
asks = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(VERBS),
        "who": st.integers(0, 11),
        "age": st.sampled_from([0, 0, 0, 0, 0, 1, -1]),
        "instance": st.sampled_from(["own", "own", "own", "none", "i1", "i2"]),
        "join": st.sampled_from(JOINS),
        "group": st.sampled_from(["g", "g", "g", "g", "g", "h", "''"]),
    }
)
waits = st.sampled_from([0, 0, 500, 500, 500, 1_000, 3_000, 10_000, 60_000, 300_000])
troubles = st.sampled_from(["restart", "resign", "forget", "fail", "fail", "fail"])
weights = [asks] * 14 + [waits] * 5 + [troubles]
wishes: st.SearchStrategy[Any] = st.integers(0, len(weights) - 1).flatmap(lambda number: weights[number])


class GroupRun:
    """One coordinator through which anything goes; the oracle watches."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.requests = 0
        self.observed: list[str] = []
        self.settings = GroupSettings(group_max_size=3, group_initial_rebalance_delay_ms=500)
        self.shell = CoordinatorShell(lambda: GroupCoordinator(self.settings))
        self.oracle = Oracle(self.shell)
        self.step(FinishLoading())

    def step(self, command: Command) -> None:
        self.took(self.shell.run(command, self.now_ms))

    def took(self, effects: GroupEffects) -> None:
        self.shell.fail_next_append = None
        self.oracle.effects_applied(effects)
        self.observed += [event.trigger or event.kind for event in effects.events]

    def ask(self, wish: dict[str, Any]) -> None:
        group = self.shell.coordinator.state.groups.get(wish["group"])
        known = [] if group is None else [*group.members, *group.pending]
        who = [*known, *known, *known, "-", "unknown"][wish["who"] % (3 * len(known) + 2)]
        member = None if group is None else group.members.get(who)
        instance = wish["instance"] if wish["instance"] in ("i1", "i2") else None
        if wish["instance"] == "own" and member is not None:
            instance = member.instance_id
        options = "" if instance is None else f" instance={instance}"
        generation = 0 if group is None else group.generation - wish["age"]
        self.requests += 1
        # Each member gets the partition of its number, so that none has two owners.
        assignment = ";".join(f"{member_id}:flights/{number}" for number, member_id in enumerate(known))
        line = {
            "join": f"join {wish['group']} {who} new=m{self.requests}{options} {wish['join']}",
            "sync": f"sync {wish['group']} {who} gen={generation} assignment={assignment}{options}",
            "heartbeat": f"heartbeat {wish['group']} {who} gen={generation}{options}",
            "commit": f"commit {wish['group']} {who} gen={generation}{options} flights/0={self.requests}",
            "anonymous": f"commit {wish['group']} flights/1={self.requests} retention={wish['age']}",
            "leave": f"leave {wish['group']} {'' if who == '-' else who}{options}",
            "evict": f"evict {wish['group']} {who}",
            "expire-member": f"expire-member {wish['group']} {who}",
        }.get(wish["verb"], f"{wish['verb']} {wish['group']}")
        command: Any = parse_command(line, self.requests)
        if wish["verb"] not in NOTICES:
            self.oracle.request_received(command)
        self.step(command)
        if wish["verb"] in NOTICES and group is not None:
            member = group.members.get(who)
            stays = wish["verb"] == "expire-member" and member is not None and member.counts_as_alive
            assert who not in group.pending
            assert (member is not None) == stays, f"{line}: {who} is in the group, or not"

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.shell.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            effects = self.shell.fire_timers(self.now_ms)
            assert effects is not None
            self.took(effects)
        self.now_ms = end_ms

    def restart(self) -> None:
        self.shell.begin_loading()
        self.oracle.coordinator_restarted()
        self.step(FinishLoading())

    def perform(self, what: Any) -> None:
        match what:
            case int():
                self.wait(what)
            case "fail":
                self.shell.fail_next_append = ErrorCode.KAFKA_STORAGE_ERROR
            case "restart":
                self.restart()
            case "resign":
                self.oracle.coordinator_resigned(self.shell.run(Resign(), self.now_ms))
                self.restart()
            case "forget":
                self.step(ForgetTopics(topics=("never",)))
            case _:
                self.ask(what)


@given(st.lists(wishes, min_size=30, max_size=80))
def test_the_invariants_hold_for_any_order_of_requests(actions: list[Any]) -> None:
    run = GroupRun()
    for what in actions:
        run.perform(what)
    # After all timeouts every request is answered.
    run.wait(3_600_000)
    assert run.oracle.open_requests() == []


together = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["commit", "commit", "commit", "join", "heartbeat", "fetch", "sync"]), st.integers(0, 3)
    ),
    max_size=20,
)


def lines_of(asked: list[tuple[str, str, int]], known: dict[str, list[str]], prefix: str) -> list[str]:
    """Requests of members, pending and unknown members of a few groups, and of consumers without one."""
    lines = []
    for number, (group, verb, who) in enumerate(asked):
        members = known.get(group, [])
        member = members[who % len(members)] if members else "unknown"
        lines.append(
            {
                "commit": f"commit {group} {member if who else '-'} gen={1 if who else -1} t/{who}={number}",
                "join": f"join {group} {member if who else '-'} new={prefix}{number} old=yes",
                "heartbeat": f"heartbeat {group} {member} gen=1",
                "sync": f"sync {group} {member} gen=1 assignment={member}:t/{number}",
            }.get(verb, f"{verb} {group}")
        )
    return lines


@given(together, together, st.booleans())
def test_commands_of_one_batch_have_the_effects_of_one_by_one(
    before: list[tuple[str, str, int]], asked: list[tuple[str, str, int]], fails: bool
) -> None:
    shells = [CoordinatorShell(lambda: GroupCoordinator(GroupSettings())) for _ in range(2)]
    for shell in shells:
        shell.run(FinishLoading(), 0)
        for number, line in enumerate(lines_of(before, {}, "m")):
            shell.run(parse_command(line, number), 0)
    alone, shared = shells
    known = {group_id: list(group.members) for group_id, group in alone.coordinator.state.groups.items()}
    observed: list[list[GroupEffects]] = [[], []]
    for number, line in enumerate(lines_of(asked, known, "n"), 100):
        alone.fail_next_append = shared.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS if fails else None
        observed[0].append(alone.run(parse_command(line, number), 5))
        observed[1] += [effects for _, effects in shared.submit(parse_command(line, number), 5)]
    shared.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS if fails else None
    observed[1] += [effects for _, effects in shared.flush(5)]
    answers = [sorted((reply.to, repr(reply.result)) for effects in each for reply in effects.replies) for each in observed]
    assert answers[0] == answers[1]
    assert [key for key, _ in alone.log] == [key for key, _ in shared.log]
    assert alone.stored == shared.stored
    # Groups come to be in another order: a first commit's only with its record, which several commands share.
    views = [sorted(shell.coordinator.snapshot().groups, key=lambda group: group.group_id) for shell in shells]
    assert views[0] == views[1]


rows = st.lists(st.tuples(int32, int64, int32, st.just("") | text), min_size=1, max_size=6)
columns = st.builds(
    lambda topic, topic_id, rows: TopicOffsets(
        topic,
        topic_id,
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows] if any(row[3] for row in rows) else None,
    ),
    topic=text,
    topic_id=topic_ids | st.just(bytes(16)),
    rows=rows,
)
commits = st.builds(
    CommittedOffsets,
    group_id=text,
    topics=st.lists(columns, min_size=1, max_size=3).map(tuple),
    commit_timestamp_ms=int64,
    expire_timestamp_ms=st.none() | st.none() | positive64,
)


@given(st.lists(commits | group_records.map(lambda record: (record,)), min_size=1, max_size=4), st.sampled_from([0, 50, 8_180, 10**6]))
def test_records_framed_together_are_those_of_one_by_one(steps: list[Any], first: int) -> None:
    section, number, one_by_one = b"", first, []
    for step in steps:
        section += frame_records(step, number)
        number += len(step)
        one_by_one += [(encode_key(record), encode_value(record)) for record in step]
    records = [Record(first + at, 7, key, value) for at, (key, value) in enumerate(one_by_one)]
    assert section == encode_records(records, base_offset=0, base_timestamp_ms=7)


@given(st.lists(commits, max_size=4))
def test_commits_applied_as_a_whole_are_their_records_one_by_one(steps: list[CommittedOffsets]) -> None:
    together, alone = ReplayedState(), ReplayedState()
    for step in steps:
        together.apply_all(step)
        for record in step:
            alone.apply(record)
    assert together == alone
