"""Seeded scripts of transactional requests, played to Apache Kafka and to Ottla: every answer, and every record of both internal topics.

Producer ids are compared by the order in which a script met them, times by whether there is one. A script's records in
`__transaction_state`, `__consumer_offsets` and the topic of its batches are compared when all scripts have been played.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from ottla.cli.processes import OttlaProcess
from ottla.groups.log.records import OffsetRecord, decode
from ottla.protocol.coordinator_records import TRANSACTION_TOPIC_TYPES
from ottla.protocol.record_codec import UnknownRecord, decode_record
from ottla.protocol.records.batch import BatchHeader, decode_batch, split_batches
from ottla.protocol.records.control import decode_end_marker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.reference.apache_kafka import ApacheKafka
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import make_broker
from trials.transaction_scripts.moves import Move, Playing, play, script_of

NAME = "transaction-scripts"
TOPIC: Final = "transaction-scripts"
CONFIG: Final = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
ITS_BROKER_STAYS: Final = {"broker.session.timeout.ms": "600000"}
"""On a busy machine, Apache Kafka's controller would take its only broker for dead, and the coordinators' epochs would rise."""
PARTITION_BYTES_MAX: Final = 1 << 24


def read_batches(client: RawClient, topic: str, partition: int) -> Iterator[tuple[BatchHeader, list[Any]]]:
    """Every batch of a partition, with its records."""
    at, end = 0, 1
    base = {"max_wait": 0, "min_bytes": 1, "max_bytes": PARTITION_BYTES_MAX, "replica_id": -1, "session_epoch": -1}
    while at < end:
        part = {"partition": partition, "fetch_offset": at, "partition_max_bytes": PARTITION_BYTES_MAX, "current_leader_epoch": -1}
        topics = [{"topic": topic, "partitions": [{**part, "last_fetched_epoch": -1}]}]
        (found,) = client.call(ApiKey.FETCH, 12, topics=topics, **base).responses[0].partitions
        assert found.error_code == 0, found
        end, data = found.high_watermark, bytes(found.records or b"")
        for start, header in split_batches(data):
            yield header, decode_batch(data, start)
            at = header.next_offset


def records_of(client: RawClient, scripts: Sequence[Playing]) -> dict[str, list[Any]]:
    """The records of every script, by its name, as they are equal on two brokers."""
    found: dict[str, list[Any]] = {script.name: [] for script in scripts}
    by_name = {script.name: script for script in scripts}
    by_group = {script.group(): script for script in scripts}
    by_producer = {producer_id: script for script in scripts for producer_id in script.ids if producer_id >= 0}
    for _, records in read_batches(client, "__transaction_state", 0):
        for each in records:
            record = decode_record(TRANSACTION_TOPIC_TYPES, each.key, each.value)
            assert not isinstance(record, UnknownRecord)
            if (script := by_name.get(record.key.transactional_id)) is not None:
                found[script.name].append(_state(script, record.value, each.value))
    for header, records in read_batches(client, "__consumer_offsets", 0):
        if header.is_control:
            if (script := by_producer.get(header.producer_id)) is not None:
                found[script.name].append(("offsets", *_marker(script, header, records)))
            continue
        for each in records:
            offset = decode(each.key, each.value)
            if isinstance(offset, OffsetRecord) and (script := by_group.get(offset.group_id)) is not None:
                value = None if offset.value is None else (offset.value.offset, offset.value.metadata, offset.value.leader_epoch)
                found[script.name].append(("offset", *_producer(script, header), offset.topic, offset.partition, value))
    for partition in range(2):
        for header, records in read_batches(client, TOPIC, partition):
            if (script := by_producer.get(header.producer_id)) is None:
                continue
            if header.is_control:
                found[script.name].append((partition, *_marker(script, header, records)))
            else:
                found[script.name].append((partition, *_producer(script, header), header.base_sequence, len(records)))
    return found


def _producer(script: Playing, header: BatchHeader) -> tuple[Any, ...]:
    return script.shown(header.producer_id), header.producer_epoch, header.is_transactional


def _marker(script: Playing, header: BatchHeader, records: Sequence[Any]) -> tuple[Any, ...]:
    marker = decode_end_marker(records[0])
    assert marker is not None
    return *_producer(script, header), marker.type.name, marker.coordinator_epoch, header.size_bytes


def _state(script: Playing, value: Any, data: bytes | None) -> tuple[Any, ...]:
    if value is None:
        return ("state", None)
    partitions = None if value.transaction_partitions is None else sorted(
        (each.topic, sorted(each.partition_ids)) for each in value.transaction_partitions
    )  # fmt: skip
    return (
        "state",
        (data or b"")[:2],
        script.shown(value.producer_id),
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_status,
        partitions,
        value.transaction_last_update_timestamp_ms > 0,
        value.transaction_start_timestamp_ms > 0,
        script.shown(value.previous_producer_id),
        script.shown(value.next_producer_id),
        value.client_transaction_version,
    )


def differences(theirs: Sequence[Any], ours: Sequence[Any], what: str) -> list[str]:
    """The first difference of two lists, in words."""
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False)):
        if their != our:
            return [f"{what} {number}: {their} there, {our} here"]
    if len(theirs) != len(ours):
        return [f"{what}s: {len(theirs)} there, {len(ours)} here; {[*theirs, *ours][min(len(theirs), len(ours)) :][:1]} is one too many"]
    return []


def play_both(moves: Sequence[Move], theirs: Playing, ours: Playing) -> list[str]:
    """Play a script to both; where they differ first."""
    for number, move in enumerate(moves):
        said = []
        for script in (theirs, ours):
            before = len(script.said)
            play(script, move)
            said.append(script.said[before:])
        if said[0] != said[1]:
            return [f"step {number}, {move}: {said[0]} there, {said[1]} here"]
    return []


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which scripts."""
    parser.add_argument("--steps", action="store_true", help="print every step of each script and its answer")
    add_seed_option(parser, "0-299", "a script each")


def run(options: argparse.Namespace, results: Results) -> None:
    """Play all scripts, then compare the records of those whose answers were the same."""
    with tempfile.TemporaryDirectory(prefix="ottla-transaction-scripts-") as directory, ExitStack() as stack:
        clients = []
        for kind, more in ((ApacheKafka.kind, ITS_BROKER_STAYS), (OttlaProcess.kind, {})):
            broker = stack.enter_context(make_broker(kind, Path(directory) / kind, {**CONFIG, **more}))
            clients.append(stack.enter_context(RawClient(broker.bootstrap_servers)))
            create_topic(broker.bootstrap_servers, TOPIC, 2)
            wait_until(lambda: _has_coordinators(clients[-1]), "the coordinators of a group and of a transactional id")
        played: list[tuple[int, Playing, Playing]] = []
        wrong: dict[int, list[str]] = {}
        for seed in options.seed:
            theirs, ours = (Playing(client, TOPIC, f"script-{seed}") for client in clients)
            moves = script_of(seed)
            try:
                wrong[seed] = play_both(moves, theirs, ours)
            except Exception as error:  # noqa: BLE001 - it is the script's outcome
                wrong[seed] = [repr(error)]
            played.append((seed, theirs, ours))
            if options.steps:
                for their, our in zip(theirs.said, ours.said, strict=False):
                    results.say(f"  {their}" if their == our else f"! {their} there, {our} here")
            elif wrong[seed]:
                results.say(f"seed {seed}: {wrong[seed][0]}")
        their_records = records_of(clients[0], [theirs for _, theirs, _ in played])
        our_records = records_of(clients[1], [ours for _, _, ours in played])
        for seed, theirs, ours in played:
            found = wrong[seed] or differences(their_records[theirs.name], our_records[ours.name], "record")
            results.verdict(f"seed {seed}", Outcome(found, f"{len(ours.said)} answers, {len(our_records[ours.name])} records"), seed=seed)


def _has_coordinators(client: RawClient) -> bool:
    asked = [client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["x"]) for key_type in (0, 1)]
    return all(answer.coordinators[0].error_code == 0 for answer in asked)
