"""Whole data directories change hands: what Apache Kafka wrote opens here, what we wrote opens there, and back, with nothing lost (law 7).

Contents are compared as a consumer sees them (committed and not), as Kafka's log dump prints them, and by topic ids, settings, offsets
of groups and transactions: complete ones, one that is open, and one whose end was decided and not carried out.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.cli.processes import OttlaProcess
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import decode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUPS = ("readers", "modern", "payers")
COORDINATOR_NOT_YET = (14, 15, 16)
# The cluster metadata must be read from a snapshot, and the compacted topic must have been compacted.
KAFKA_CONFIG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "3",
}
# Less to wait for, and less to recover; everything else is as people have it.
OUR_CONFIG = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
# Lines that Apache Kafka also logs at WARN or ERROR on a directory of its own: when it starts after a kill, and when a topic grows;
# and of the topic whose settings are spelt strangely.
EXPECTED = (
    "contains duplicate values. Duplicates will be removed.",
    "Performing controller activation",
    "Attempting to close NetworkClient that has already been closed",
    "because the partition is not online or is no longer the leader",
    "Expected partition paid-2",
    # Its heartbeats to itself, and its other work, on a machine that is busy with other things.
    "Exceptionally slow controller event",
    "controller event queue overloaded. Timed out heartbeat",
    "sent a heartbeat request but received error REQUEST_TIMED_OUT",
    # Its request to itself while it starts after a kill, seen once, with no exception recorded; it asks again until it is registered.
    "Unexpected error handling request RequestHeader(apiKey=CONTROLLER_REGISTRATION",
)


class Seen(NamedTuple):
    """What is in a cluster, for those who look from outside."""

    ids: dict[str, str]
    configs: dict[str, dict[str, str]]
    committed: dict[str, dict[tuple[str, int], int]]
    transactions: dict[str, tuple[Any, ...]]
    records: dict[str, dict[tuple[str, int], list[Any]]]


def client(servers: str, **config: Any) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0} | {name.replace("_", "."): value for name, value in config.items()}


def look(servers: str) -> Seen:
    """Everything that a client can see of the topics that clients write to."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient(client(servers))
    listed = admin.list_topics(timeout=60).topics
    topics = sorted(name for name in listed if not name.startswith("__"))
    described = admin.describe_topics(TopicCollection(topics))
    resources = {topic: ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics}
    configs = admin.describe_configs(list(resources.values()))
    set_on_topic = 1
    partitions = [(topic, number) for topic in topics for number in listed[topic].partitions]
    return Seen(
        ids={topic: str(future.result(60).topic_id) for topic, future in described.items()},
        configs={
            topic: {entry.name: entry.value for entry in configs[resource].result(60).values() if entry.source == set_on_topic}
            for topic, resource in resources.items()
        },
        committed={group: committed(servers, group) for group in GROUPS},
        transactions=transactions(servers),
        records={level: read_all(servers, partitions, level) for level in ("read_committed", "read_uncommitted")},
    )


def committed(servers: str, group: str) -> dict[tuple[str, int], int]:
    """All of the group's offsets, once its coordinator has loaded."""
    with RawClient(servers) as raw:
        answer = patiently(lambda: raw.call(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=False))
    return {(topic.name, each.partition_index): each.committed_offset for topic in answer.topics for each in topic.partitions}


def transactions(servers: str) -> dict[str, tuple[Any, ...]]:
    """State, timeout, producer and partitions of every transactional id, once no end is under way."""
    fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None}
    with RawClient(servers) as raw:

        def is_settled() -> bool:
            found = raw.call(ApiKey.LIST_TRANSACTIONS, 2, **fields)
            return found.error_code == 0 and not any(each.transaction_state.startswith("Prepare") for each in found.transaction_states)

        wait_until(is_settled, "every end that was decided", seconds=60)
        listed = raw.call(ApiKey.LIST_TRANSACTIONS, 2, **fields).transaction_states
        states = raw.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[each.transactional_id for each in listed]).transaction_states
    return {
        each.transactional_id: (
            each.transaction_state,
            each.transaction_timeout,
            each.producer_id,
            each.producer_epoch,
            sorted((topic.topic, sorted(topic.partitions)) for topic in each.topics),
        )
        for each in states
    }


def patiently(ask: Callable[[], Any]) -> Any:
    """The answer, once it is neither that a coordinator is not there yet nor that it loads: Apache Kafka takes a while after a start."""
    answers: list[Any] = []

    def is_there() -> bool:
        answers.append(ask())
        return answers[-1].error_code not in COORDINATOR_NOT_YET

    wait_until(is_there, "a coordinator", seconds=30)
    assert answers[-1].error_code == ErrorCode.NONE, answers[-1]
    return answers[-1]


def read_all(servers: str, partitions: list[tuple[str, int]], level: str) -> dict[tuple[str, int], list[Any]]:
    """Each partition's records that this isolation level shows, from the first to the end that a consumer sees."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    found: dict[tuple[str, int], list[Any]] = {each: [] for each in partitions}
    config = {"enable_auto_commit": False, "isolation_level": level, "enable_partition_eof": True, "fetch_wait_max_ms": 50}
    consumer = Consumer(client(servers, group_id="looking", **config))
    consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in partitions])
    open_ends = set(partitions)
    while open_ends:
        message = consumer.poll(10)
        assert message is not None, f"no end of {open_ends} at {level}"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            open_ends.discard((message.topic(), message.partition()))
            continue
        record = (message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
        found[message.topic(), message.partition()].append(record)
    consumer.close()
    return found


def make_topics(servers: str, **configs: str) -> None:
    """Topics of all kinds, one that is deleted again, and one with these settings."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(client(servers))
    compacted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topics = [
        # Its records are of 1970: the first check of the retention time, 30 s after a start, would remove them.
        NewTopic("codecs", len(CODECS), 1, config={"retention.ms": "-1"}),
        NewTopic("paid", 2, 1, config={"min.insync.replicas": "1"}),
        NewTopic("compacted", 1, 1, config=compacted),
        NewTopic("gone", 3, 1),
        NewTopic("empty", 3, 1, config={name.replace("_", "."): value for name, value in configs.items()}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(60)
    admin.delete_topics(["gone"])["gone"].result(60)


def write_records(servers: str, count: int = 100) -> None:
    """Records in every codec by idempotent producers, and keys that come again and again."""
    from confluent_kafka import Producer

    for number, codec in enumerate(CODECS):
        producer = Producer(client(servers, compression_type=codec, enable_idempotence=True, linger_ms=5, batch_num_messages=20))
        for record in range(count):
            key, headers = b"k%d" % record, [("codec", codec.encode()), ("none", None)]
            producer.produce("codecs", b"%d of %d " % (record, count) * 20, key, number, timestamp=1_000_000 + record, headers=headers)
            producer.produce("compacted", b"" if record % 3 else codec.encode(), b"key %d" % (record % 7), 0)
        assert producer.flush(60) == 0


def pay(servers: str, transactional_id: str, *, commit: bool) -> Any:
    """One transaction with records and a group's offset, committed or aborted."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer(client(servers, transactional_id=transactional_id))
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(20):
        producer.produce("paid", b"%s %d" % (transactional_id.encode(), number), partition=number % 2)
    assert producer.flush(60) == 0  # an abort drops what has not been sent yet
    consumer = Consumer(client(servers, group_id="payers"))
    offset = 11 if commit else 99
    producer.send_offsets_to_transaction([TopicPartition("codecs", 0, offset)], consumer.consumer_group_metadata(), 20)
    (producer.commit_transaction if commit else producer.abort_transaction)(60)
    consumer.close()
    return producer


def leave_open(servers: str) -> Any:
    """A transaction that stays open; keep the returned value, or it is ended."""
    from confluent_kafka import Producer

    producer = Producer(client(servers, transactional_id="hanging", transaction_timeout_ms=600_000))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("paid", b"hanging", partition=0)
    assert producer.flush(60) == 0
    return producer


def undo_the_end(directory: Path, transactional_id: str) -> None:
    """Make a killed broker's directory what it was just before the markers of the latest transaction were written.

    The last batches are cut off: the complete state in `__transaction_state`, and the markers in the partitions.
    """
    (log,) = (
        path
        for path in directory.glob("__transaction_state-*/*.log")
        if (records := [decode_batch(path.read_bytes(), at) for at, _ in split_batches(path.read_bytes())])
        and transactional_id.encode() in (records[-1][0].key or b"")
    )
    markers = [
        path
        for pattern in ("paid-*/*.log", "__consumer_offsets-*/*.log")
        for path in directory.glob(pattern)
        if (headers := [header for _, header in split_batches(path.read_bytes())]) and headers[-1].is_control
    ]
    assert len(markers) == 3
    for path in (log, *markers):
        *_, (at, _) = split_batches(path.read_bytes())
        os.truncate(path, at)


def end_the_open_one(servers: str, seen: Seen) -> None:
    """The producer of the open transaction commits it: its records are read then, and all that came behind them."""
    _, _, producer_id, epoch, _ = seen.transactions["hanging"]
    before = len(read_all(servers, [("paid", 0)], "read_committed")["paid", 0])
    with RawClient(servers) as raw:
        raw.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["hanging"])
        fields = {"transactional_id": "hanging", "producer_id": producer_id, "producer_epoch": epoch, "committed": True}
        patiently(lambda: raw.call(ApiKey.END_TXN, 4, **fields))
    assert transactions(servers)["hanging"][0] == "CompleteCommit"
    values = [record[3] for record in read_all(servers, [("paid", 0)], "read_committed")["paid", 0]][before:]
    assert values == [b"hanging", *(b"prepared %d" % number for number in range(0, 20, 2))]


def commit_offsets(servers: str, group: str, first: int, second: int, **config: str) -> None:
    """A member of the group reads, and commits an offset in two partitions."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(client(servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **config))
    consumer.subscribe(["codecs"])
    assert consumer.consume(10, 20)
    consumer.commit(offsets=[TopicPartition("codecs", 1, first), TopicPartition("codecs", 2, second)], asynchronous=False)
    consumer.close()


def resume(servers: str, group: str) -> set[tuple[int, int]]:
    """The first offset that a member of the group is given of each partition."""
    from confluent_kafka import Consumer

    first: dict[int, int] = {}
    consumer = Consumer(client(servers, group_id=group, auto_offset_reset="error", enable_auto_commit=False))
    consumer.subscribe(["codecs"])
    while not {1, 2} <= first.keys():
        message = consumer.poll(20)
        assert message is not None
        if not message.error():  # partitions without an offset are errors here
            first.setdefault(message.partition(), message.offset())
    consumer.close()
    return set(first.items())


def describe(servers: str, group: str) -> tuple[str, ...]:
    return ("--bootstrap-server", servers, "--describe", "--group", group)


def change_topics(servers: str) -> None:
    """One topic goes, one comes, one grows, one gets another setting."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

    admin = AdminClient(client(servers))
    admin.delete_topics(["empty"])["empty"].result(60)
    admin.create_topics([NewTopic("theirs", 2, 1)])["theirs"].result(60)
    admin.create_partitions([NewPartitions("paid", 3)])["paid"].result(60)
    entry = ConfigEntry("retention.ms", "99999999", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "paid", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def new_producer_id(servers: str) -> int:
    with RawClient(servers) as raw:
        answer = patiently(lambda: raw.call(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout=60_000))
    return int(answer.producer_id)


def producer_ids(directory: Path) -> set[int]:
    """Those of every batch in the directory."""
    logs = [path.read_bytes() for path in directory.glob("*-[0-9]*/*.log")]
    return {header.producer_id for data in logs for _, header in split_batches(data)}


def dump(run_tool: Callable[..., str], directory: Path, *options: str, topics: tuple[str, ...] = ("codecs", "paid")) -> str:
    """What the tool prints of the segments, with no path of ours in it."""
    files = sorted(path for topic in topics for path in directory.glob(f"{topic}-[0-9]/*.log"))
    assert files
    printed = run_tool("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    assert "isvalid: false" not in printed
    return printed.replace(str(directory), "")


def complaints(log: Path) -> list[str]:
    """What Apache Kafka logged above INFO, but for what it always does; each with the line that follows, where the exception stands."""
    lines = re.findall(r"^\[[^]]*\] (?:WARN|ERROR|FATAL) .*(?:\n[^[].*)?", log.read_text(errors="replace"), re.MULTILINE)
    return [line for line in lines if not any(words in line for words in EXPECTED)]


def set_broker_configs(servers: str) -> None:
    """One setting for all brokers, one for this one."""
    with RawClient(servers) as raw:
        for name, value in (("", "7654321"), ("1", "8765432")):
            config = {"name": "message.max.bytes", "config_operation": 0, "value": value}
            resource = {"resource_type": 4, "resource_name": name, "configs": [config]}
            (response,) = raw.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
            assert response.error_code == ErrorCode.NONE, response


def assert_same(now: Seen, seen: Seen) -> None:
    assert now.ids == seen.ids
    assert now.transactions == seen.transactions
    assert now.committed == seen.committed
    assert now.configs == seen.configs
    assert now.records.keys() == seen.records.keys()
    for level, records in seen.records.items():
        assert now.records[level].keys() == records.keys()
        for partition, expected in records.items():
            found = now.records[level][partition]
            if partition[0] == "compacted":  # either broker's cleaner may have been there meanwhile
                found, expected = last_of_each_key(found), last_of_each_key(expected)
            assert found == expected, (level, partition)


def last_of_each_key(records: list[Any]) -> list[Any]:
    return sorted({record[2]: record for record in records}.values())


def opens_here(directory: Path, seen: Seen, run_tool: Callable[..., str]) -> None:
    """Our broker shows what was seen there, goes on with it, and leaves the files of the topics as they were."""
    before, used = dump(run_tool, directory, "--deep-iteration"), producer_ids(directory)
    with OttlaProcess(directory, config=OUR_CONFIG) as broker:
        servers = broker.bootstrap_servers
        assert_same(look(servers), seen)
        assert resume(servers, "readers") == {(1, 77), (2, 5)}
        assert new_producer_id(servers) not in used
    assert dump(run_tool, directory, "--deep-iteration") == before


def test_what_apache_kafka_wrote_opens_here(reference: Any, tmp_path: Path, run_tool: Callable[..., str]) -> None:
    kafka = reference.own(KAFKA_CONFIG)
    servers = kafka.bootstrap_servers
    make_topics(servers, retention_ms="12345678", follower_replication_throttled_replicas="*")  # the second is not known here
    set_broker_configs(servers)
    for _ in range(2):
        write_records(servers)
        pay(servers, "committing", commit=True)
        pay(servers, "aborting", commit=False)
    commit_offsets(servers, "readers", 77, 5)
    commit_offsets(servers, "modern", 7, 50, group_protocol="consumer")  # KIP-848
    compacted = [("compacted", 0)]
    wait_until(lambda: len(read_all(servers, compacted, "read_committed")["compacted", 0]) < 500, "the cleaner's first round", seconds=30)
    wait_until(lambda: len(list(kafka.log_dir.glob("__cluster_metadata-0/*.checkpoint"))) > 1, "a snapshot of the metadata", seconds=30)
    seen = look(servers)
    assert len(seen.records["read_committed"]["paid", 0]) < len(seen.records["read_uncommitted"]["paid", 0])
    assert seen.committed["payers"] == {("codecs", 0): 11}
    kafka.stop()
    shutil.copytree(kafka.log_dir, tmp_path / "stopped")
    opens_here(tmp_path / "stopped", seen, run_tool)

    kafka.start()
    write_records(servers, count=50)
    hanging = leave_open(servers)
    pay(servers, "prepared", commit=True)
    seen = look(servers)
    states = {name: state for name, (state, *_) in seen.transactions.items()}
    complete = {"committing": "CompleteCommit", "aborting": "CompleteAbort", "prepared": "CompleteCommit"}
    assert states == {**complete, "hanging": "Ongoing"}
    kafka.kill()
    del hanging
    shutil.copytree(kafka.log_dir, tmp_path / "killed")
    shutil.copytree(kafka.log_dir, tmp_path / "undecided")
    opens_here(tmp_path / "killed", seen, run_tool)
    undo_the_end(tmp_path / "undecided", "prepared")
    with OttlaProcess(tmp_path / "undecided", config=OUR_CONFIG) as broker:
        assert_same(look(broker.bootstrap_servers), seen)
        end_the_open_one(broker.bootstrap_servers, seen)


SPELLINGS = {
    "segment.bytes": " +1048577\t",
    "retention.ms": "\u0661\u0660\u0660\u0660",
    "min.cleanable.dirty.ratio": "2.5e-1f",
    "cleanup.policy": "delete , compact,delete",
    "compression.type": " gzip",
    "preallocate": "FALSE ",
}


def settings_in_force(servers: str) -> dict[str, str]:
    asked = {"resource_type": 2, "resource_name": "spelt", "configuration_keys": sorted(SPELLINGS)}
    found: dict[str, str] = {}

    def is_there() -> bool:
        with RawClient(servers) as raw:
            (described,) = raw.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]).results
        found.update((each.name, each.value) for each in described.configs)
        return bool(found)

    wait_until(is_there, "the topic", seconds=30)
    return found


def add_user(run_tool: Callable[..., str], servers: str, name: str) -> str:
    """Add a user of SCRAM; what kafka-configs then prints of all users."""
    users = ["kafka.admin.ConfigCommand", "--bootstrap-server", servers, "--entity-type", "users"]
    run_tool(*users, "--alter", "--entity-name", name, "--add-config", f"SCRAM-SHA-512=[iterations=8192,password={name}-secret]")
    return run_tool(*users, "--describe")


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}
ALL_ACLS = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None,
    "operation": 1, "permission_type": 1,
}  # fmt: skip


def guard(servers: str, name: str, rate: float) -> None:
    """Create an ACL of a user, and a quota of a client."""
    acl = {"resource_type": 2, "resource_name": name, "resource_pattern_type": 4, "principal": f"User:{name}", "host": "*", "operation": 3,
           "permission_type": 3}  # fmt: skip
    ops = [{"key": "producer_byte_rate", "value": rate, "remove": False}]
    entry = {"entity": [{"entity_type": "client-id", "entity_name": name}], "ops": ops}
    with RawClient(servers) as raw:
        assert [each.error_code for each in raw.call(ApiKey.CREATE_ACLS, 3, creations=[acl]).results] == [0]
        assert [each.error_code for each in raw.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False).entries] == [0]


def guards(servers: str) -> tuple[set[tuple[str, str]], dict[str, float]]:
    """All ACLs as names of topics with users, and the rates of all clients."""
    with RawClient(servers) as raw:
        resources = raw.call(ApiKey.DESCRIBE_ACLS, 3, **ALL_ACLS).resources
        of_clients = [{"entity_type": "client-id", "match_type": 2, "match": None}]
        entries = raw.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=of_clients, strict=True).entries
    return (
        {(each.resource_name, acl.principal) for each in resources for acl in each.acls},
        {entry.entity[0].entity_name: entry.values[0].value for entry in entries},
    )


def test_what_we_wrote_opens_in_apache_kafka_and_here_again(reference: Any, tmp_path: Path, run_tool: Callable[..., str]) -> None:
    ours = OttlaProcess(tmp_path / "data", config=OUR_CONFIG | AUTHORIZER)
    with ours:
        servers = ours.bootstrap_servers
        make_topics(servers, retention_ms="12345678")
        guard(servers, "alice", 1e6)
        create_topic(servers, "spelt", **SPELLINGS)
        set_broker_configs(servers)
        write_records(servers)
        pay(servers, "ours committing", commit=True)
        pay(servers, "ours aborting", commit=False)
        commit_offsets(servers, "readers", 77, 5)
        assert add_user(run_tool, servers, "alice").count("SCRAM-SHA-512=iterations=8192") == 1
        seen, in_force = look(servers), settings_in_force(servers)
    assert (in_force["segment.bytes"], in_force["retention.ms"], in_force["cleanup.policy"]) == ("1048577", "1000", "delete,compact")
    before, used = dump(run_tool, ours.data_dir, "--deep-iteration", topics=("codecs",)), producer_ids(ours.data_dir)

    kafka = reference.own(AUTHORIZER, log_dir=ours.data_dir)
    servers = kafka.bootstrap_servers
    assert_same(look(servers), seen)
    assert guards(servers) == ({("alice", "User:alice")}, {"alice": 1e6})
    guard(servers, "bob", 2e6)
    assert settings_in_force(servers) == in_force, "a setting is read alike, however it is written"
    assert dump(run_tool, ours.data_dir, "--deep-iteration", topics=("codecs",)) == before
    assert resume(servers, "readers") == {(1, 77), (2, 5)}
    assert new_producer_id(servers) not in used
    groups = run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *describe(servers, "readers"))
    assert re.search(r"readers +codecs +1 +77 +100 +23 ", groups), groups
    change_topics(servers)
    write_records(servers)
    pay(servers, "committing", commit=True)
    pay(servers, "aborting", commit=False)
    commit_offsets(servers, "readers", 150, 120)
    seen, used = look(servers), used | producer_ids(ours.data_dir)
    assert add_user(run_tool, servers, "bob").count("SCRAM-SHA-512=iterations=8192") == 2
    assert complaints(kafka.log_path) == []
    kafka.stop()

    with ours:
        servers = ours.bootstrap_servers
        assert_same(look(servers), seen)
        assert guards(servers) == ({("alice", "User:alice"), ("bob", "User:bob")}, {"alice": 1e6, "bob": 2e6})
        assert add_user(run_tool, servers, "carol").count("SCRAM-SHA-512=iterations=8192") == 3
        assert resume(servers, "readers") == {(1, 150), (2, 120)}
        assert new_producer_id(servers) not in used
        write_records(servers)
        commit_offsets(servers, "readers", 250, 220)
        hanging = leave_open(servers)
        pay(servers, "prepared", commit=True)
        seen = look(servers)
        states = {name: state for name, (state, *_) in seen.transactions.items()}
        complete = {"CompleteCommit": ("ours committing", "committing", "prepared"), "CompleteAbort": ("ours aborting", "aborting")}
        assert states == {**{name: state for state, names in complete.items() for name in names}, "hanging": "Ongoing"}
        ours.kill()
    del hanging
    # Its end is not undone, as in the other direction: a coordinator of Apache Kafka that loads before its broker knows the leaders takes
    # the partitions for deleted, and writes no markers ("Couldn't find leader endpoint").
    kafka.start()
    assert_same(look(kafka.bootstrap_servers), seen)
    end_the_open_one(kafka.bootstrap_servers, seen)
    assert resume(kafka.bootstrap_servers, "readers") == {(1, 250), (2, 220)}
    assert complaints(kafka.log_path) == []
    cluster_metadata = dump(run_tool, ours.data_dir, "--cluster-metadata-decoder", topics=("__cluster_metadata",))
    assert "Could not decode" not in cluster_metadata
    assert cluster_metadata.count('"type":"TOPIC_RECORD"') == 10  # six and one that was deleted, two internal ones, one of Kafka's
