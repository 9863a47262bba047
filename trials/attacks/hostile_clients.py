"""What hostile clients do: small requests that ask for much, small batches of many records, connections that hold memory."""

import os
import socket
import struct
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

import numpy as np

from ottla.protocol.model import Record
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, encode_batch, frame_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected
from trials.attacks.target import Target, wait_until_closed_or

TOPIC_RESOURCE = 2
PARTITIONS = 10_000
"""Apache Kafka creates no more in one request."""
NAMES = 100_000


def metadata_of_one_topic(target: Target) -> int:
    """Metadata that names one topic of 10,000 partitions 300 times."""
    topic = target.topic("metadata", target.count(PARTITIONS))
    return target.send([target.frame(ApiKey.METADATA, 9, topics=[{"name": topic}] * target.count(300))])


def metadata_of_all_topics(target: Target) -> int:
    """Metadata of every topic, by 20 connections at once."""
    for _ in range(5):
        target.topic("all", target.count(PARTITIONS))
    return target.send([target.frame(ApiKey.METADATA, 9, topics=None)], connections=target.count(20))


def offsets_of_one_group(target: Target) -> int:
    """OffsetFetch that names a group with 10,000 offsets 100 times."""
    topic, group = target.topic("offsets", target.count(PARTITIONS)), target.name("offsets")
    partitions = [{"partition_index": number, "committed_offset": 0} for number in range(target.count(PARTITIONS))]
    topics = [{"name": topic, "partitions": partitions}]
    target.coordinator_of(group)
    target.send([target.frame(ApiKey.OFFSET_COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=topics)])
    return target.send([target.frame(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": None}] * target.count(100))])


def description_of_one_large_member(target: Target) -> int:
    """DescribeGroups that names a group ten times whose member has 40 MB of metadata."""
    group = target.name("large")
    target.coordinator_of(group)
    protocols = [{"name": "range", "metadata": bytes(target.count(40_000_000))}]
    join = {"group_id": group, "session_timeout": 60_000, "rebalance_timeout": 60_000, "member_id": "", "protocol_type": "consumer"}
    sent = target.send([target.frame(ApiKey.JOIN_GROUP, 3, **join, protocols=protocols)])
    return sent + target.send([target.frame(ApiKey.DESCRIBE_GROUPS, 5, groups=[group] * 10)])


def changes_of_one_resource(target: Target) -> int:
    """IncrementalAlterConfigs that names one topic 1,000 times."""
    topic = target.topic("changes", 1)
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "86400000"}]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    return target.send([target.frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource] * target.count(1_000))])


def many_names(target: Target) -> int:
    """100,000 names in each request that takes names."""
    names = [f"no-{number}" for number in range(target.count(NAMES))]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": names}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": names}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": name, "topics": None} for name in names]}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": names}),
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": name} for name in names], "timeout": 1000}),
        (ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": name} for name in names]}),
        (ApiKey.METADATA, 9, {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}),
        (ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": name, "partitions": [{"timestamp": -1}]} for name in names]}),
        (ApiKey.DESCRIBE_LOG_DIRS, 2, {"topics": [{"topic": name, "partitions": [0]} for name in names]}),
        (ApiKey.OFFSET_COMMIT, 8, {"group_id": "no", "topics": [{"name": name, "partitions": [{}]} for name in names]}),
    ]
    return sum(target.send([target.frame(key, version, **values)]) for key, version, values in requests)


def many_items(target: Target) -> int:
    """100,000 items in each other array of a request: protocols, members, assignments, settings, replicas, partitions."""
    topic, group, count = target.topic("items", 1), target.name("items"), target.count(NAMES)
    target.coordinator_of(group)
    names = [f"no-{number}" for number in range(count)]
    member = {"group_id": group, "generation_id": 1, "member_id": "no"}
    times = {"session_timeout": 60_000, "rebalance_timeout": 60_000}
    configs = [{"name": name, "config_operation": 0, "value": "1"} for name in names]
    settings = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    replicas = {"partition_index": 0, "broker_ids": list(range(count))}
    made = {"num_partitions": -1, "replication_factor": -1}
    commits = [{"partition_index": number, "committed_offset": 1} for number in range(count)]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (
            ApiKey.JOIN_GROUP,
            5,
            {"group_id": group, **times, "protocol_type": "c", "protocols": [{"name": name, "metadata": b""} for name in names]},
        ),
        (ApiKey.SYNC_GROUP, 3, {**member, "assignments": [{"member_id": name, "assignment": b""} for name in names]}),
        (ApiKey.LEAVE_GROUP, 4, {"group_id": group, "members": [{"member_id": name} for name in names]}),
        (
            ApiKey.OFFSET_COMMIT,
            8,
            {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": commits}]},
        ),
        (ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": [{"name": name, "partitions": [{}]} for name in names]}),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [settings]}),
        (ApiKey.CREATE_TOPICS, 5, {"topics": [{"name": target.name("items"), **made, "assignments": [replicas]}], "timeout": 1000}),
        (
            ApiKey.CREATE_TOPICS,
            5,
            {"topics": [{"name": name, **made, "configs": [{"name": "x", "value": "1"}]} for name in names], "timeout": 1000},
        ),
        (ApiKey.CREATE_PARTITIONS, 2, {"topics": [{"name": name, "count": 2} for name in names], "timeout": 1000}),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [{"topic": name, "partitions": [{}]} for name in names]}),
        (ApiKey.DELETE_RECORDS, 2, {"topics": [{"name": name, "partitions": [{}]} for name in names], "timeout": 1000}),
        (ApiKey.LIST_GROUPS, 4, {"states_filter": names}),
    ]
    return sum(target.send([target.frame(key, version, **values)]) for key, version, values in requests)


def heartbeats_of_many_names(target: Target) -> int:
    """Members of a consumer group that subscribe to 100,000 names, and say that they own 100,000 partitions."""
    topic, group, count = target.topic("subscribed", 10), target.name("subscribed"), target.count(NAMES)
    target.coordinator_of(group)
    names = [topic, *(f"no-{number}" for number in range(count - 1))]
    parts = [{"topic_id": uuid.UUID(int=number + 1), "partitions": [0]} for number in range(count // 2)]
    frames = []
    for member in ("a", "b"):
        for subscribed in (names, names[:-1], [topic]):
            frames.append(_heartbeat(target, group, member, 0, subscribed_topic_names=subscribed))
        frames += [_heartbeat(target, group, member, epoch, topic_partitions=parts) for epoch in (0, 1, 2, 99)]
    return target.send(frames)


def heartbeats_of_expressions(target: Target) -> int:
    """40 members of a consumer group whose expressions have up to 10,000 characters or match every one of 300 topics; some take long."""
    group = target.name("expressions")
    target.coordinator_of(group)
    stem = "abc" * 60
    topics = [{"name": f"{stem}-{target.name('t')}", "num_partitions": 1, "replication_factor": 1} for _ in range(target.count(300))]
    frames = [target.frame(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=60_000)]
    for number in range(target.count(10)):
        for regex in (f"(a?b?c?){{{990 - number}}}.*", f".*{'|x' * (5_000 - number)}", f".{{{number + 1},}}", "(" * (10_000 - number)):
            frames.append(_heartbeat(target, group, f"m{len(frames)}", 0, subscribed_topic_regex=regex))
    sent = target.send(frames)
    time.sleep(0.5)  # the expressions are looked up beside the requests
    return sent + target.send([_heartbeat(target, group, "m1", 0, subscribed_topic_regex=".*")])


def refused_heartbeats(target: Target) -> int:
    """20 connections that send 5,000 heartbeats each: epochs that are none, a member of another group, partitions that it does not own."""
    topic, group, other = target.topic("refused", 10), target.name("refused"), target.name("other")
    target.coordinator_of(group)
    sent = target.send([_heartbeat(target, group, "m", 0, subscribed_topic_names=[topic])])
    sent += target.send([_heartbeat(target, other, "n", 0, subscribed_topic_names=[topic])])
    parts = [{"topic_id": uuid.UUID(int=1), "partitions": list(range(100))}]
    refused = (
        _heartbeat(target, group, "m", 99),
        _heartbeat(target, group, "n", 2),
        _heartbeat(target, group, "m", 1, topic_partitions=parts),
        _heartbeat(target, group, "m", 0, subscribed_topic_names=[topic], topic_partitions=parts),
        _heartbeat(target, target.name("none"), "m", 5),
    )
    return sent + sum(target.pipeline(frame, target.count(5_000 // len(refused)), connections=20) for frame in refused)


def many_members(target: Target) -> int:
    """5,000 members of one consumer group that come over one connection, each with other topics or none, and go again."""
    group = target.name("crowd")
    target.coordinator_of(group)
    topics = [target.topic("crowd", 20) for _ in range(8)]
    names = [f"m{number}" for number in range(target.count(5_000))]
    joins = [
        _heartbeat(target, group, name, 0, subscribed_topic_names=[topic for bit, topic in enumerate(topics) if number >> bit & 1])
        for number, name in enumerate(names)
    ]
    return target.send(joins) + target.send([_heartbeat(target, group, name, -1) for name in names])


def _heartbeat(target: Target, group: str, member: str, epoch: int, **values: Any) -> bytes:
    member_values = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": 60_000}
    nothing: dict[str, Any] = {
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "topic_partitions": [] if epoch == 0 else None,
    }
    return target.frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **member_values, **{**nothing, **values})


def pipelined_requests(target: Target) -> int:
    """20 connections that send 50,000 small requests each without waiting for answers."""
    return target.pipeline(target.frame(ApiKey.API_VERSIONS, 0), target.count(50_000), connections=20)


def transactional_ids(target: Target) -> int:
    """50,000 transactional ids that are used once, and their zombies: each asks for an epoch, and ends what it never began."""
    names = [target.name("transactional") for _ in range(target.count(50_000))]
    with target.client() as client:
        client.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=names[:1])
    known = {"producer_id": 1 << 40, "producer_epoch": 7}
    frames = [
        frame
        for name in names
        for frame in (
            target.frame(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=60_000),
            target.frame(ApiKey.END_TXN, 4, transactional_id=name, committed=True, **known),
        )
    ]
    return target.send(frames)


def many_transactional_ids(target: Target) -> int:
    """200,000 transactional ids, which are listed then by 20 connections."""
    with target.client() as client:
        client.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["x"])
    frames = []
    for _ in range(target.count(200_000)):
        name = target.name("many").encode()
        payload = struct.pack(f">hhihh{len(name)}si", ApiKey.INIT_PRODUCER_ID, 0, 0, -1, len(name), name, 60_000)
        frames.append(len(payload).to_bytes(4) + payload)
    sent = target.send(frames)
    listing = target.frame(ApiKey.LIST_TRANSACTIONS, 2, state_filters=[], producer_id_filters=[], duration_filter=-1)
    return sent + target.send([listing], connections=target.count(20))


def wrong_transactions(target: Target) -> int:
    """20,000 requests of each kind that is refused: timeouts above the maximum, unknown ids, wrong epochs, missing partitions; and batches
    of 50,000 producers that are in no transaction.
    """
    topic, name = target.topic("transactional", 1), target.name("transactional")
    with target.client() as client:
        asked = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        deadline = time.monotonic() + 60
        while (answer := client.call(ApiKey.INIT_PRODUCER_ID, 4, **asked)).error_code and time.monotonic() < deadline:
            client.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name])
            time.sleep(0.1)
    known = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    stale = {**known, "producer_epoch": 99}
    here, missing = ([{"name": topic, "partitions": [number]}] for number in (0, 99))
    offset = {"partition_index": 0, "committed_offset": 1}
    refused = [
        (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": name, "transaction_timeout": 1 << 30, "producer_id": -1, "producer_epoch": -1}),
        (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": name, "transaction_timeout": 1_000, "producer_id": 1 << 40, "producer_epoch": 1}),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_transactional_id": "unknown", **_v3(known), "v3_and_below_topics": here}),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_transactional_id": name, **_v3(stale), "v3_and_below_topics": here}),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_transactional_id": name, **_v3(known), "v3_and_below_topics": missing}),
        (ApiKey.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": name, **stale, "group_id": "g"}),
        (
            ApiKey.TXN_OFFSET_COMMIT,
            5,
            {"transactional_id": name, **stale, "group_id": "g", "topics": [{"name": topic, "partitions": [offset]}]},
        ),
        (ApiKey.END_TXN, 5, {"transactional_id": "unknown", **known, "committed": True}),
        (ApiKey.END_TXN, 5, {"transactional_id": name, **stale, "committed": True}),
    ]
    sent = sum(
        target.pipeline(target.frame(key, version, **values), target.count(5_000), connections=4) for key, version, values in refused
    )
    record = Record(0, int(time.time() * 1000), None, b"x")
    frames = []
    for number in range(target.count(50_000)):
        batch = encode_batch([record], producer_id=(1 << 41) + number, producer_epoch=0, base_sequence=0, is_transactional=True)
        head = struct.pack(f">hhihh{len(name)}shi", ApiKey.PRODUCE, 3, 0, -1, len(name), name.encode(), -1, 60_000)
        data = struct.pack(f">ih{len(topic)}siii", 1, len(topic), topic.encode(), 1, 0, len(batch)) + batch
        frames.append((len(head) + len(data)).to_bytes(4) + head + data)
    return sent + target.send(frames)


def _v3(producer: Mapping[str, int]) -> dict[str, int]:
    return {f"v3_and_below_{name}": value for name, value in producer.items()}


def creation_by_metadata(target: Target) -> int:
    """Metadata that has 15,000 topics created."""
    topics = [{"name": target.name("auto")} for _ in range(target.count(15_000))]
    return target.send([target.frame(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True)])


def creation_of_many_partitions(target: Target) -> int:
    """CreateTopics of 20 topics with 10,000 partitions each, then of one, which is deleted again."""
    large = {"num_partitions": target.count(PARTITIONS), "replication_factor": 1}
    many = [{"name": target.name("many"), **large} for _ in range(20)]
    one = target.name("one")
    frames = [
        target.frame(ApiKey.CREATE_TOPICS, 5, topics=many, timeout=60_000),
        target.frame(ApiKey.CREATE_TOPICS, 5, topics=[{"name": one, **large}], timeout=60_000),
        target.frame(ApiKey.DELETE_TOPICS, 6, topics=[{"name": one}], timeout=60_000),
    ]
    return target.send(frames)


def use_of_many_partitions(target: Target) -> int:
    """Produce, Fetch and ListOffsets that name 10,000 partitions which were never used; then their topic is deleted."""
    topic = target.topic("use", target.count(PARTITIONS))
    numbers = range(target.count(PARTITIONS))
    batch = target.one_record()
    written = [{"index": number, "records": batch} for number in numbers]
    wanted = [
        {"partition": number, "partition_max_bytes": 1000, "current_leader_epoch": -1, "last_fetched_epoch": -1} for number in numbers
    ]
    asked = [{"partition_index": number, "timestamp": -1, "current_leader_epoch": -1} for number in numbers]
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1_000_000, "session_epoch": -1}
    frames = [
        target.frame(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}]),
        target.frame(ApiKey.FETCH, 12, **fetch, topics=[{"topic": topic, "partitions": wanted}]),
        target.frame(ApiKey.PRODUCE, 9, acks=1, timeout=60_000, topic_data=[{"name": topic, "partition_data": written}]),
        target.frame(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic}], timeout=60_000),
    ]
    return target.send(frames)


# --- small batches of many records


MAX_TIMESTAMP = -3
_AHEAD_MS = 2 * 3_600_000
_NULL_KEY, _EMPTY_KEY = 1, 0
_RECORD_BYTES = 7
"""A record's length, attributes, time, key, value and headers: all but its offset, each in one byte."""


def minimal_records(count: int, key: int) -> bytes:
    """`count` records without a value, with a null or an empty key, as they lie in a batch."""
    parts = []
    first = 0
    for offset_bytes in range(1, 6):
        end = min(count, 1 << (7 * offset_bytes - 1))
        deltas = np.arange(first, end, dtype=np.uint64) << np.uint64(1)
        rows = np.zeros((len(deltas), _RECORD_BYTES - 1 + offset_bytes), np.uint8)
        rows[:, 0] = (_RECORD_BYTES - 2 + offset_bytes) * 2
        for byte in range(offset_bytes):
            more = 0x80 if byte < offset_bytes - 1 else 0
            rows[:, 3 + byte] = (deltas >> np.uint64(7 * byte)) & np.uint64(0x7F) | np.uint64(more)
        rows[:, 3 + offset_bytes] = key
        rows[:, 4 + offset_bytes] = 1
        parts.append(rows.tobytes())
        first = end
        if end == count:
            break
    return b"".join(parts)


@cache
def hostile_batch(count: int, key: int, ahead_ms: int) -> bytes:
    """A batch in zstd of `count` minimal records, with timestamps so far in the future."""
    batch, _ = frame_batch(minimal_records(count, key), count, timestamp_ms=int(time.time() * 1000) + ahead_ms, codec=Codec.ZSTD)
    return bytes(batch)


def produce(target: Target, topic: str, batch: bytes) -> int:
    """Produce the batch to the topic's partition 0."""
    topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    return target.send([target.frame(ApiKey.PRODUCE, 9, acks=1, timeout=60_000, topic_data=topic_data)])


def times_ahead(target: Target) -> int:
    """A batch of a million records whose largest time lies two hours ahead."""
    return produce(target, target.topic("ahead", 1), hostile_batch(target.count(1_000_000), _NULL_KEY, _AHEAD_MS))


def records_of_a_compacted_topic(target: Target) -> int:
    """As many records as a batch may hold on a compacted topic, then ListOffsets for their largest time."""
    topic = target.topic("compacted", 1, {"cleanup.policy": "compact", "max.message.bytes": "100000000"})
    count = target.count(DECOMPRESSED_BYTES_MAX // (_RECORD_BYTES + 3) - 1)
    sent = produce(target, topic, hostile_batch(count, _EMPTY_KEY, 0))
    asked = [{"partition_index": 0, "timestamp": MAX_TIMESTAMP, "current_leader_epoch": -1}]
    return sent + target.send([target.frame(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}])])


def records_without_keys(target: Target) -> int:
    """The same without keys: each record is invalid."""
    topic = target.topic("keyless", 1, {"cleanup.policy": "compact", "max.message.bytes": "100000000"})
    return produce(target, topic, hostile_batch(target.count(4_000_000), _NULL_KEY, 0))


def records_in_another_codec(target: Target) -> int:
    """As many records as a batch may hold on a topic that stores them in gzip."""
    topic = target.topic("gzip", 1, {"compression.type": "gzip", "max.message.bytes": "100000000"})
    return produce(target, topic, hostile_batch(target.count(4_000_000), _NULL_KEY, 0))


# --- memory that is held


HOLD_SECONDS = 3
"""So long the peers keep their connections open: long enough that the broker's memory is seen."""
FRAME_BYTES = 100_000_000
"""Within Kafka's default of socket.request.max.bytes."""
BATCH_BYTES = 40_000_000


def announced_frames(target: Target) -> int:
    """80 connections that announce frames of 100 MB and send a few bytes."""
    return _hold(target, target.count(80), FRAME_BYTES.to_bytes(4, "big") + b"\0\3\0\x0c")


def half_frames(target: Target) -> int:
    """500 connections that send 200 kB of a frame of 256 kB."""
    return _hold(target, target.count(500), (256_000).to_bytes(4, "big") + b"\0\3\0\x0c" + bytes(200_000))


def _hold(target: Target, connections: int, data: bytes) -> int:
    sent = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(connections)]
        for client in clients:
            client.socket.settimeout(HOLD_SECONDS)  # a broker may stop reading
            with suppress(Disconnected, TimeoutError):
                client.send_bytes(data)
                sent += len(data)
        wait_until_closed_or(HOLD_SECONDS, clients)
    return sent


@cache
def large_batch(size: int) -> bytes:
    """One record that no codec makes smaller."""
    return bytes(encode_batch([Record(0, 1, None, os.urandom(size))]))


def slow_readers(target: Target) -> int:
    """20 connections that fetch a batch of 40 MB, twice each, and read nothing of it."""
    topic = target.topic("slow", 1, {"max.message.bytes": "100000000"})
    sent = produce(target, topic, large_batch(target.count(BATCH_BYTES)))
    wanted = [{"partition": 0, "partition_max_bytes": FRAME_BYTES, "current_leader_epoch": -1, "last_fetched_epoch": -1}]
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": FRAME_BYTES, "session_epoch": -1}
    frame = target.frame(ApiKey.FETCH, 12, **fetch, topics=[{"topic": topic, "partitions": wanted}])
    with ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(target.count(20))]
        for client in clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the rest stays with the broker
            client.send_bytes(frame * 2)
        wait_until_closed_or(HOLD_SECONDS, clients)
    return sent + len(frame) * 2 * len(clients)


def silent_connections(target: Target) -> int:
    """2,000 connections at once that send nothing."""
    with ExitStack() as stack:
        clients = []
        for _ in range(target.count(2_000)):
            try:
                clients.append(stack.enter_context(target.client()))
            except OSError:
                break
        wait_until_closed_or(HOLD_SECONDS, clients)
    return 0
