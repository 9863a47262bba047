"""The shell of a coordinator: append before reply, one more command when the append fails, timers that ring."""

import asyncio
import dataclasses
from typing import Any

import pytest

from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.broker.dispatch import dispatch, read_request
from ottla.broker.groups import RETRY_MS
from ottla.core.errors import PeerError, StorageError
from ottla.core.model import Record


def coordinator_of_g(api) -> CoordinatorLoop:
    async def take() -> CoordinatorLoop:
        return api.node.groups.loop(api.node.groups.partition_of("g"))

    return api.runner.run(take())


def test_a_reply_goes_out_only_after_its_records_are_in_the_log(api, make_api) -> None:
    order: list[str] = []
    api.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip
    loop = coordinator_of_g(api)
    append, reply = loop._append, loop._reply
    loop._append = lambda *what, **how: (order.append("append"), append(*what, **how))
    loop._reply = lambda answer: (order.append("reply"), reply(answer))
    commit(api)
    assert order == ["append", "reply"]


def commit(api) -> int:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = api.ask(8, 8, group_id="g", **fields, topics=[{"name": "t", "partitions": [part]}])
    return int(answer.topics[0].partitions[0].error_code)


def test_a_failed_append_is_told_to_the_client_and_nothing_is_kept(api) -> None:
    api.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip
    loop = coordinator_of_g(api)
    working = loop._append

    def full(_section, _count, *, bytes_max) -> None:
        raise StorageError("the disk is full")

    loop._append = full
    assert commit(api) == 16  # KAFKA_STORAGE_ERROR is told as NOT_COORDINATOR
    fetched = api.ask(9, 7, group_id="g", topics=None, require_stable=False)
    assert fetched.topics == ()
    loop._append = working
    assert commit(api) == 0


@pytest.mark.parametrize(("flush_messages", "durable"), [(None, 0), ("1", 1)])
def test_a_reply_waits_for_the_sync_that_flush_messages_asks_for(api, flush_messages: str | None, durable: int) -> None:
    api.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip
    loop = coordinator_of_g(api)
    if flush_messages is not None:
        changes = [("flush.messages", 0, flush_messages)]
        assert api.cluster.topics.alter_config(2, "__consumer_offsets", changes) is None
    seen: list[int] = []
    reply = loop._reply
    loop._reply = lambda answer: (seen.append(loop.partition.log.recovery_point), reply(answer))
    assert commit(api) == 0
    assert (seen, loop.partition.log.log_end_offset) == ([durable], 1)


def commit_frame(offset: int, partition: int = 0) -> dict[str, Any]:
    part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", "committed_leader_epoch": -1}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {"group_id": "g", **fields, "topics": [{"name": "t", "partitions": [part]}]}


def ask_in_one_turn(api, requests: list[tuple[int, int, dict[str, Any]]]) -> list[Any]:
    """The answers to requests that arrive in one turn of the loop, on connections of their own."""
    answers: list[Any] = []

    async def send() -> None:
        for key, version, fields in requests:
            answers.append(asyncio.get_running_loop().create_future())
            served, request = read_request(memoryview(api.encode(key, version, fields)), "/127.0.0.1")
            request.send = lambda parts, answer=answers[-1]: answer.set_result(b"".join(parts))
            dispatch(api.node, served, request)

    api.runner.run(send())
    return [api.finish(key, version, answer) for (key, version, _), answer in zip(requests, answers, strict=True)]


def make_topic(api) -> None:
    api.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip


FETCH = (9, 7, {"group_id": "g", "topics": None, "require_stable": False})


def test_what_arrives_in_one_turn_shares_one_append(api) -> None:
    make_topic(api)
    assert commit(api) == 0
    log = coordinator_of_g(api).partition.log
    answers = ask_in_one_turn(api, [(8, 8, commit_frame(offset)) for offset in range(20)])
    assert [int(answer.topics[0].partitions[0].error_code) for answer in answers] == [0] * 20
    assert [header.record_count for header, _ in log.read_batches(1)] == [20]
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 19


def test_who_would_read_what_is_undecided_has_it_settled_before(api) -> None:
    make_topic(api)
    answers = ask_in_one_turn(api, [(8, 8, commit_frame(1)), (8, 8, commit_frame(2)), FETCH, (8, 8, commit_frame(3)), FETCH])
    assert [answers[at].topics[0].partitions[0].committed_offset for at in (2, 4)] == [2, 3]
    log = coordinator_of_g(api).partition.log
    assert [header.record_count for header, _ in log.read_batches(0)] == [1, 1, 1], "the first offset makes the group"


def test_a_failed_append_is_told_to_everybody_who_shared_it(api) -> None:
    make_topic(api)
    assert commit(api) == 0
    loop = coordinator_of_g(api)

    def full(_section, _count, *, bytes_max) -> None:
        raise StorageError("the disk is full")

    loop._append = full
    answers = ask_in_one_turn(api, [(8, 8, commit_frame(offset)) for offset in (5, 6, 7)])
    assert [int(answer.topics[0].partitions[0].error_code) for answer in answers] == [16] * 3
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 1


def failing_in_one_turn(api, requests: list[tuple[int, int, dict[str, Any]]]) -> list[Exception]:
    """With what the connections of requests end that arrive in one turn of the loop, or that wait for what happens in it."""
    failed: list[Exception] = []

    async def send() -> None:
        for key, version, fields in requests:
            served, request = read_request(memoryview(api.encode(key, version, fields)), "/127.0.0.1")
            request.fail = failed.append
            dispatch(api.node, served, request)

    api.runner.run(send())
    return failed


def test_a_mistake_of_ours_ends_the_connections_of_those_who_wait_and_the_log_is_read_again(api, caplog) -> None:
    make_topic(api)
    assert commit(api) == 0
    loop = coordinator_of_g(api)
    loop._append = lambda *_, **__: 1 / 0
    join = {"group_id": "h", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": "i",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip
    join["group_id"] = next(name for name in map(str, range(1000)) if api.node.groups.partition_of(name) == loop.coordinator.partition)
    failed = failing_in_one_turn(api, [(11, 9, join), *((8, 8, commit_frame(offset)) for offset in (1, 2))])
    assert [type(error) for error in failed] == [ZeroDivisionError] * 3
    assert api.node.groups._waiting == {}
    assert "its groups are not served: division by zero" in caplog.text
    assert loop._alarm is None
    assert commit(api) == 15, "COORDINATOR_NOT_AVAILABLE, for a while"
    api.now_ms += RETRY_MS
    commit(api)
    api.settle()
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 1
    assert commit(api) == 0


def test_a_timer_that_fails_unexpectedly_leaves_nobody_waiting(make_api, monkeypatch) -> None:
    api = make_api({"group.initial.rebalance.delay.ms": "1"})
    loop = coordinator_of_g(api)
    monkeypatch.setattr(type(loop.coordinator), "fire_timers", lambda _coordinator, **_times: 1 / 0)
    failed: list[Exception] = []
    join = {"group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": "i",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip

    async def wait() -> None:
        served, request = read_request(memoryview(api.encode(11, 9, join)), "/127.0.0.1")
        request.fail = failed.append
        dispatch(api.node, served, request)
        api.now_ms += 10
        while not failed:
            await asyncio.sleep(0.001)

    api.runner.run(asyncio.wait_for(wait(), 5))
    assert [type(error) for error in failed] == [ZeroDivisionError]
    assert loop not in api.node.groups.loops()


def test_much_is_appended_at_once(api, monkeypatch) -> None:
    monkeypatch.setattr("ottla.broker.coordinator_loop.SHARED_BYTES_MAX", 300)
    make_topic(api)
    assert commit(api) == 0
    ask_in_one_turn(api, [(8, 8, commit_frame(offset)) for offset in range(20)])
    counts = [header.record_count for header, _ in coordinator_of_g(api).partition.log.read_batches(1)]
    assert sum(counts) == 20
    assert 3 < len(counts) < 20


def test_no_batch_is_larger_than_the_topic_allows_and_what_alone_is_too_large_alone_fails(api) -> None:
    make_topic(api)
    assert commit(api) == 0
    log = coordinator_of_g(api).partition.log
    log.settings = dataclasses.replace(log.settings, max_message_bytes=300)
    large = commit_frame(99)
    large["topics"][0]["partitions"][0]["committed_metadata"] = "x" * 300
    frames = [commit_frame(offset) for offset in range(6)]
    answers = ask_in_one_turn(api, [(8, 8, frame) for frame in (*frames[:3], large, *frames[3:])])
    assert [answer.topics[0].partitions[0].error_code for answer in answers] == [0, 0, 0, -1, 0, 0, 0]
    headers = [header for header, _ in log.read_batches(1)]
    assert max(header.size_bytes for header in headers) <= 300
    assert sum(header.record_count for header in headers) == 6
    assert 2 <= len(headers) < 6
    assert commit(api) == 0


def test_a_session_that_ends_rings_the_loop(make_api) -> None:
    api = make_api({"group.min.session.timeout.ms": "50"})
    fields = {
        "group_id": "g", "session_timeout": 50, "rebalance_timeout": 50, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    joined = api.ask(11, 3, **fields)
    assert joined.error_code == 0

    async def later() -> None:
        for _ in range(50):
            api.now_ms += 10
            await asyncio.sleep(0.01)

    api.runner.run(later())
    beat = api.ask(12, 3, group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id=None)
    assert beat.error_code == 25


def test_a_reloaded_coordinator_knows_what_its_log_says(make_api) -> None:
    first = make_api()
    first.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
              include_topic_authorized_operations=False)  # fmt: skip
    assert commit(first) == 0
    second = make_api(files=first.files)
    (offset,) = second.ask(9, 7, group_id="g", topics=None, require_stable=False).topics[0].partitions
    assert offset.committed_offset == 1


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"\0\x63\0\1g", "1 records are of types not known here"),
        (None, "the record at offset 0 is passed over: a record of the offsets topic has no key"),
    ],
)
def test_records_without_meaning_here_are_passed_over_and_named(make_api, caplog, key: bytes | None, words: str) -> None:
    first = make_api()
    first.ask(10, 3, key_type=0, key="g")
    log = first.cluster.partitions.by_name("__consumer_offsets", 0).log
    log.append_records([Record(0, 0, key, b"x")], now_ms=0)
    make_api(files=first.files)
    assert f"__consumer_offsets-0: {words}" in caplog.text


def test_a_group_that_no_record_could_hold_closes_the_connection_and_nobody_waits(api) -> None:
    fields = {
        "group_id": "g" * 40_000, "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None,
    }  # fmt: skip
    with pytest.raises(PeerError, match="40000 characters"):
        api.ask(11, 9, **fields)
    assert api.node.groups._waiting == {}


def test_the_log_speaks_kafkas_lines(make_api, caplog) -> None:
    caplog.set_level("INFO", "ottla.broker.coordinator")
    api = make_api()
    fields = {
        "group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    member_id = api.ask(11, 3, **fields).member_id
    api.ask(13, 0, group_id="g", member_id=member_id)
    prefix = f"[GroupCoordinator id=1 topic=__consumer_offsets partition={api.node.groups.partition_of('g')}] "
    assert f"{prefix}Stabilized group g generation 1 with 1 members." in caplog.messages
    left = f"{prefix}[Group g] Member {member_id} has left group through explicit `LeaveGroup` request"
    assert any(line.startswith(left) for line in caplog.messages)


def test_a_group_id_cannot_forge_a_log_line(make_api, caplog) -> None:
    caplog.set_level("INFO", "ottla.broker.coordinator")
    fields = {
        "group_id": "g\n[2026] ERROR all is lost\x1b[2J", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    make_api().ask(11, 3, **fields)
    assert any("group g\\n[2026] ERROR all is lost\\x1b[2J" in line for line in caplog.messages)
    assert all(line.isprintable() for line in caplog.messages)


async def turns(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_offsets_that_are_too_old_go_when_their_time_comes_and_not_before(make_api) -> None:
    api = make_api({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5"})
    api.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip
    assert commit(api) == 0
    api.now_ms += 59_999
    api.runner.run(turns(0.05))
    assert len(api.ask(9, 7, group_id="g", topics=None, require_stable=False).topics) == 1
    api.now_ms += 1
    api.runner.run(turns(0.05))
    assert api.ask(9, 7, group_id="g", topics=None, require_stable=False).topics == ()
    assert api.ask(15, 6, groups=["g"], include_authorized_operations=False).groups[0].error_code == 69


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_sessions_do_not_follow_the_time_of_day(make_api, jump_ms: int) -> None:
    api = make_api({"group.initial.rebalance.delay.ms": "0"})
    join = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "", "group_instance_id": "i", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip
    joined = api.ask(11, 9, group_id="g", **join)
    who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id, "group_instance_id": "i"}
    plan = [{"member_id": joined.member_id, "assignment": b""}]
    assert api.ask(14, 5, **who, protocol_type="consumer", protocol_name="range", assignments=plan).error_code == 0

    loop = coordinator_of_g(api)

    def fire_timers() -> None:
        async def ring() -> None:
            loop._ring()

        api.runner.run(ring())

    api.time_of_day_offset_ms += jump_ms
    api.now_ms += 9_999
    fire_timers()
    assert api.ask(12, 4, **who).error_code == 0
    api.now_ms += 10_000
    fire_timers()
    assert api.ask(12, 4, **who).error_code == 25


def test_a_pass_over_many_offsets_lets_requests_in_between(make_api, monkeypatch) -> None:
    monkeypatch.setattr("ottla.core.groups.expiry.TOMBSTONES_PER_STEP", 1)
    api = make_api({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "20"})
    api.ask(19, 5, topics=[{"name": "t", "num_partitions": 9, "replication_factor": 1, "assignments": [], "configs": []}],
            timeout=1000, validate_only=False)  # fmt: skip
    parts = [{"partition_index": n, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1} for n in range(9)]
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    api.ask(8, 8, group_id="g", **fields, topics=[{"name": "t", "partitions": parts}])
    loop = coordinator_of_g(api)
    seen: set[int] = set()

    async def watch() -> None:
        for _ in range(200):
            seen.add(sum(map(len, loop.coordinator.registry.durable.offsets.get("g", {}).values())))
            await asyncio.sleep(0)
            if not loop.coordinator.registry.groups:
                return
            await asyncio.sleep(0.001 if not loop.coordinator.is_expiring else 0)

    api.now_ms += 60_000
    api.runner.run(watch())
    assert len(seen) >= 5, "steps of a pass come one after the other, in turns of the loop"
    assert not loop.coordinator.registry.groups


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_batches_are_written_with_the_codec_of_the_setting_and_read_back(make_api, codec: int) -> None:
    first = make_api({"offsets.topic.compression.codec": str(codec)})
    first.ask(3, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
              include_topic_authorized_operations=False)  # fmt: skip
    assert commit(first) == 0
    log = coordinator_of_g(first).partition.log
    assert [header.codec for header, _ in log.read_batches(0)] == [codec]
    second = make_api(files=first.files)
    (offset,) = second.ask(9, 7, group_id="g", topics=None, require_stable=False).topics[0].partitions
    assert offset.committed_offset == 1
