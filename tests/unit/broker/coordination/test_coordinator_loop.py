"""The shell of a coordinator: append before reply, one more command when the append fails, timers."""

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.broker.coordination.coordinators import RETRY_MS
from ottla.coordinator.loop import CoordinatorLoop
from ottla.log.file_system import MemoryFiles
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import Record
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.faulty_files import FaultyFiles


def coordinator_of_g(api) -> CoordinatorLoop:
    async def take() -> CoordinatorLoop:
        return api.groups.coordinators.get(api.groups.partition_of("g"))

    return api.runner.run(take())


def make_topic(api) -> None:
    api.ask(ApiKey.METADATA, 8, topics=[{"name": "t"}], allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False)  # fmt: skip


def commit(api) -> int:
    answer = api.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields(1))
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(("flush_messages", "durable"), [(None, 0), ("1", 1)])
def test_a_reply_is_sent_after_its_append_and_after_the_sync_that_flush_messages_asks_for(api, flush_messages, durable: int) -> None:
    make_topic(api)
    log = coordinator_of_g(api).partition.log
    if flush_messages is not None:
        changes = [("flush.messages", 0, flush_messages)]
        assert api.cluster.topics.alter_config(2, "__consumer_offsets", changes) is None
    assert (log.recovery_point, log.log_end_offset) == (0, 0)
    seen: list[tuple[int, int]] = []
    (answer,) = ask_in_one_batch(api, [(8, 8, commit_fields(1))], lambda: seen.append((log.recovery_point, log.log_end_offset)))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert seen == [(durable, 1)]


def test_a_failed_append_is_answered_with_an_error_and_nothing_is_kept(make_api) -> None:
    files = FaultyFiles(MemoryFiles(), Random(0))
    api = make_api(files=files)
    make_topic(api)
    coordinator_of_g(api)
    files.fail_next_write(after_bytes=0)
    assert commit(api) == ErrorCode.NOT_COORDINATOR, "that is how Kafka answers KAFKA_STORAGE_ERROR"
    fetched = api.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False)
    assert fetched.topics == ()
    assert commit(api) == ErrorCode.NONE


def commit_fields(offset: int, partition: int = 0) -> dict[str, Any]:
    part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", "committed_leader_epoch": -1}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {"group_id": "g", **fields, "topics": [{"name": "t", "partitions": [part]}]}


def ask_in_one_batch(api, requests: list[tuple[int, int, dict[str, Any]]], on_send: Callable[[], None] = lambda: None) -> list[Any]:
    """The answers to requests that arrive in one event-loop batch, each on its own connection; `on_send` runs when one is sent."""
    answers: list[Any] = []

    def send_to(answer: "asyncio.Future[bytes]", parts: list[bytes]) -> None:
        on_send()
        answer.set_result(b"".join(parts))

    async def send() -> None:
        for key, version, fields in requests:
            answers.append(asyncio.get_running_loop().create_future())
            served, request = api.dispatcher.read_request(memoryview(api.encode(key, version, fields)), api.session)
            request.send = partial(send_to, answers[-1])
            api.dispatcher.dispatch(served, request)

    api.runner.run(send())
    return [api.finish(key, version, answer) for (key, version, _), answer in zip(requests, answers, strict=True)]


FETCH = (9, 7, {"group_id": "g", "topics": None, "require_stable": False})


def test_what_arrives_in_one_batch_shares_one_append(api) -> None:
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    log = coordinator_of_g(api).partition.log
    answers = ask_in_one_batch(api, [(8, 8, commit_fields(offset)) for offset in range(20)])
    assert [int(answer.topics[0].partitions[0].error_code) for answer in answers] == [ErrorCode.NONE] * 20
    assert [header.record_count for header, _ in log.read_batches(1)] == [20]
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 19


def test_a_command_that_depends_on_pending_records_has_them_appended_first(api) -> None:
    make_topic(api)
    answers = ask_in_one_batch(api, [(8, 8, commit_fields(1)), (8, 8, commit_fields(2)), FETCH, (8, 8, commit_fields(3)), FETCH])
    assert [answers[at].topics[0].partitions[0].committed_offset for at in (2, 4)] == [2, 3]
    log = coordinator_of_g(api).partition.log
    assert [header.record_count for header, _ in log.read_batches(0)] == [1, 1, 1], "the first offset makes the group"


def test_a_failed_append_is_answered_to_every_request_that_shared_it(make_api) -> None:
    files = FaultyFiles(MemoryFiles(), Random(0))
    api = make_api(files=files)
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    files.fail_next_write(after_bytes=0)
    answers = ask_in_one_batch(api, [(8, 8, commit_fields(offset)) for offset in (5, 6, 7)])
    assert [int(answer.topics[0].partitions[0].error_code) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 3
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 1


def failing_in_one_batch(api, requests: list[tuple[int, int, dict[str, Any]]]) -> list[Exception]:
    """The errors with which connections end whose requests arrive in one event-loop batch, or wait for what happens in it."""
    failed: list[Exception] = []

    async def send() -> None:
        for key, version, fields in requests:
            served, request = api.dispatcher.read_request(memoryview(api.encode(key, version, fields)), api.session)
            request.fail = failed.append
            api.dispatcher.dispatch(served, request)

    api.runner.run(send())
    return failed


def test_a_bug_ends_the_connections_of_waiting_requests_and_the_log_is_read_again(make_api, hooked_files, caplog) -> None:
    api = make_api(files=hooked_files)
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    loop = coordinator_of_g(api)
    hooked_files.before_append = lambda _path: 1 / 0
    join = {"group_id": "h", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": "i",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip
    join["group_id"] = next(name for name in map(str, range(1000)) if api.groups.partition_of(name) == loop.coordinator.partition)
    failed = failing_in_one_batch(api, [(11, 9, join), *((8, 8, commit_fields(offset)) for offset in (1, 2))])
    hooked_files.before_append = lambda _path: None
    assert [type(error) for error in failed] == [ZeroDivisionError] * 3
    assert len(api.groups.replies) == 0
    assert "its groups are not served: division by zero" in caplog.text
    assert loop._timer is None
    assert commit(api) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "for a while"
    api.now_ms += RETRY_MS
    commit(api)
    api.settle()
    assert api.ask(*FETCH[:2], **FETCH[2]).topics[0].partitions[0].committed_offset == 1
    assert commit(api) == ErrorCode.NONE


def test_a_timer_that_fails_unexpectedly_leaves_no_request_waiting(make_api, monkeypatch) -> None:
    api = make_api({"group.initial.rebalance.delay.ms": "1"})
    loop = coordinator_of_g(api)
    monkeypatch.setattr(type(loop.coordinator), "fire_timers", lambda _coordinator, **_times: 1 / 0)
    failed: list[Exception] = []
    join = {"group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": "i",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip

    async def wait() -> None:
        served, request = api.dispatcher.read_request(memoryview(api.encode(11, 9, join)), api.session)
        request.fail = failed.append
        api.dispatcher.dispatch(served, request)
        api.now_ms += 10
        while not failed:
            await asyncio.sleep(0.001)

    api.runner.run(asyncio.wait_for(wait(), 60))
    assert [type(error) for error in failed] == [ZeroDivisionError]
    assert loop not in api.groups.coordinators.all()


def test_a_large_batch_is_appended_in_parts(api, monkeypatch) -> None:
    monkeypatch.setattr("ottla.coordinator.loop.SHARED_BYTES_MAX", 300)
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    ask_in_one_batch(api, [(8, 8, commit_fields(offset)) for offset in range(20)])
    counts = [header.record_count for header, _ in coordinator_of_g(api).partition.log.read_batches(1)]
    assert sum(counts) == 20
    assert 3 < len(counts) < 20


def test_no_batch_is_larger_than_the_topic_allows_and_only_the_commit_that_is_too_large_fails(api) -> None:
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    log = coordinator_of_g(api).partition.log
    log.settings = dataclasses.replace(log.settings, max_message_bytes=300)
    large = commit_fields(99)
    large["topics"][0]["partitions"][0]["committed_metadata"] = "x" * 300
    frames = [commit_fields(offset) for offset in range(6)]
    answers = ask_in_one_batch(api, [(8, 8, frame) for frame in (*frames[:3], large, *frames[3:])])
    errors = [answer.topics[0].partitions[0].error_code for answer in answers]
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.UNKNOWN_SERVER_ERROR] + [ErrorCode.NONE] * 3
    headers = [header for header, _ in log.read_batches(1)]
    assert max(header.size_bytes for header in headers) <= 300
    assert sum(header.record_count for header in headers) == 6
    assert 2 <= len(headers) < 6
    assert commit(api) == ErrorCode.NONE


def test_a_session_that_ends_removes_the_member_without_a_request(make_api) -> None:
    api = make_api({"group.min.session.timeout.ms": "50"})
    fields = {
        "group_id": "g", "session_timeout": 50, "rebalance_timeout": 50, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    joined = api.ask(ApiKey.JOIN_GROUP, 3, **fields)
    assert joined.error_code == ErrorCode.NONE

    async def later() -> None:
        for _ in range(50):
            api.now_ms += 10
            await asyncio.sleep(0.01)

    api.runner.run(later())
    heartbeat = api.ask(ApiKey.HEARTBEAT, 3, group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id=None)
    assert heartbeat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_reloaded_coordinator_knows_what_its_log_says(make_api) -> None:
    first = make_api()
    make_topic(first)
    assert commit(first) == ErrorCode.NONE
    second = make_api(files=first.files)
    (offset,) = second.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False).topics[0].partitions
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
    first.ask(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="g")
    log = first.cluster.partitions.by_name("__consumer_offsets", 0).log
    log.append_records([Record(0, 0, key, b"x")], now_ms=0)
    make_api(files=first.files)
    assert f"__consumer_offsets-0: {words}" in caplog.text


def test_a_group_that_no_record_could_hold_closes_the_connection_and_no_request_waits(api) -> None:
    fields = {
        "group_id": "g" * 40_000, "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}], "reason": None,
    }  # fmt: skip
    with pytest.raises(PeerError, match="40000 characters"):
        api.ask(ApiKey.JOIN_GROUP, 9, **fields)
    assert len(api.groups.replies) == 0


def test_the_log_has_kafkas_lines(make_api, caplog) -> None:
    caplog.set_level("INFO", "ottla.broker.coordination.coordinators")
    api = make_api()
    fields = {
        "group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    member_id = api.ask(ApiKey.JOIN_GROUP, 3, **fields).member_id
    api.ask(ApiKey.LEAVE_GROUP, 0, group_id="g", member_id=member_id)
    prefix = f"[GroupCoordinator id=1 topic=__consumer_offsets partition={api.groups.partition_of('g')}] "
    assert f"{prefix}Stabilized group g generation 1 with 1 members." in caplog.messages
    left = f"{prefix}[Group g] Member {member_id} has left group through explicit `LeaveGroup` request"
    assert any(line.startswith(left) for line in caplog.messages)


def test_a_group_id_cannot_forge_a_log_line(make_api, caplog) -> None:
    caplog.set_level("INFO", "ottla.broker.coordination.coordinators")
    fields = {
        "group_id": "g\n[2026] ERROR all is lost\x1b[2J", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    make_api().ask(ApiKey.JOIN_GROUP, 3, **fields)
    assert any("group g\\n[2026] ERROR all is lost\\x1b[2J" in line for line in caplog.messages)
    assert all(line.isprintable() for line in caplog.messages)


async def let_run(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_offsets_expire_when_their_time_comes_and_not_before(make_api) -> None:
    api = make_api({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5"})
    make_topic(api)
    assert commit(api) == ErrorCode.NONE
    api.now_ms += 59_999
    api.runner.run(let_run(0.05))
    assert len(api.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False).topics) == 1
    api.now_ms += 1
    api.runner.run(let_run(0.05))
    assert api.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False).topics == ()
    assert (
        api.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["g"], include_authorized_operations=False).groups[0].error_code
        == ErrorCode.GROUP_ID_NOT_FOUND
    )


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_sessions_do_not_follow_the_time_of_day(make_api, jump_ms: int) -> None:
    api = make_api({"group.initial.rebalance.delay.ms": "0"})
    join = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "", "group_instance_id": "i", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}], "reason": None}  # fmt: skip
    joined = api.ask(ApiKey.JOIN_GROUP, 9, group_id="g", **join)
    who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id, "group_instance_id": "i"}
    assignments = [{"member_id": joined.member_id, "assignment": b""}]
    assert (
        api.ask(ApiKey.SYNC_GROUP, 5, **who, protocol_type="consumer", protocol_name="range", assignments=assignments).error_code
        == ErrorCode.NONE
    )

    loop = coordinator_of_g(api)

    def fire_timers() -> None:
        async def fire() -> None:
            loop.fire_due_timers()

        api.runner.run(fire())

    api.time_of_day_offset_ms += jump_ms
    api.now_ms += 9_999
    fire_timers()
    assert api.ask(ApiKey.HEARTBEAT, 4, **who).error_code == ErrorCode.NONE
    api.now_ms += 10_000
    fire_timers()
    assert api.ask(ApiKey.HEARTBEAT, 4, **who).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_run_between_the_steps_of_an_expiry_pass(make_api, monkeypatch) -> None:
    monkeypatch.setattr("ottla.groups.offsets.TOMBSTONES_PER_STEP", 1)
    api = make_api({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "20"})
    api.ask(ApiKey.CREATE_TOPICS, 5, topics=[{"name": "t", "num_partitions": 9, "replication_factor": 1, "assignments": [], "configs": []}],
            timeout=1000, validate_only=False)  # fmt: skip
    parts = [{"partition_index": n, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1} for n in range(9)]
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    api.ask(ApiKey.OFFSET_COMMIT, 8, group_id="g", **fields, topics=[{"name": "t", "partitions": parts}])
    loop = coordinator_of_g(api)
    seen: set[int] = set()

    async def watch() -> None:
        for _ in range(200):
            seen.add(sum(map(len, loop.coordinator.state.replayed.offsets.get("g", {}).values())))
            if not loop.coordinator.state.groups:
                return
            await asyncio.sleep(0.001 if not loop.coordinator.is_expiring else 0)

    api.now_ms += 60_000
    api.runner.run(watch())
    assert len(seen) >= 5, "the steps of a pass are in separate iterations of the loop"
    assert not loop.coordinator.state.groups


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_batches_are_written_with_the_codec_of_the_setting_and_read_back(make_api, codec: int) -> None:
    first = make_api({"offsets.topic.compression.codec": str(codec)})
    make_topic(first)
    assert commit(first) == ErrorCode.NONE
    log = coordinator_of_g(first).partition.log
    assert [header.codec for header, _ in log.read_batches(0)] == [codec]
    second = make_api(files=first.files)
    (offset,) = second.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False).topics[0].partitions
    assert offset.committed_offset == 1
