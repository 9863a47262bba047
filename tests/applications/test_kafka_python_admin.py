"""A script that brings topics to what is declared, and one that rewinds a group: kafka-python's admin client."""

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, OffsetSpec

from ottla.testing import Broker

DECLARED = {"orders": (3, {"retention.ms": "86400000"}), "prices": (1, {"cleanup.policy": "compact"})}


def provision(admin: KafkaAdminClient, declared: dict[str, tuple[int, dict[str, str]]]) -> list[str]:
    """Create, grow and configure topics until they are as declared; what was done, in words."""
    done = []
    existing = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}
    for name, (partitions, configs) in declared.items():
        if name not in existing:
            admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
            done.append(f"created {name}")
            continue
        if existing[name] < partitions:
            admin.create_partitions({name: partitions})
            done.append(f"{name} has {partitions} partitions")
        set_now = admin.describe_configs([ConfigResource("topic", name)])["topic"][name]
        changed = {key: value for key, value in configs.items() if set_now.get(key, {}).get("value") != value}
        if changed:
            assert admin.alter_configs([ConfigResource("topic", name, changed)]) == {"topic": {name: "OK"}}
            done.append(f"set {', '.join(changed)} of {name}")
    return done


def rewind(admin: KafkaAdminClient, group: str, topic: str) -> None:
    (described,) = admin.describe_topics([topic])
    partitions = [TopicPartition(topic, partition["partition_index"]) for partition in described["partitions"]]
    admin.reset_group_offsets(group, dict.fromkeys(partitions, OffsetSpec.EARLIEST))


@pytest.fixture
def admin(ottla_broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers)
    yield client
    client.close()


def test_topics_become_as_declared_and_stay_so(ottla_broker: Broker, admin: KafkaAdminClient) -> None:
    ottla_broker.create_topic("orders", 1, config={"retention.ms": 3_600_000})
    assert provision(admin, DECLARED) == ["orders has 3 partitions", "set retention.ms of orders", "created prices"]
    assert provision(admin, DECLARED) == []
    ottla_broker.produce("orders", [b"a", b"b", b"c"])
    assert {record.partition for record in ottla_broker.consume("orders", 3)} == {0, 1, 2}


def test_a_group_reads_again_after_it_was_rewound(ottla_broker: Broker, admin: KafkaAdminClient) -> None:
    ottla_broker.produce("orders", [b"a", b"b", b"c"])
    servers = {"bootstrap_servers": ottla_broker.bootstrap_servers}
    settings = {**servers, "group_id": "billing", "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    for _ in range(2):
        with KafkaConsumer("orders", **settings) as consumer:
            assert [next(consumer).value for _ in range(3)] == [b"a", b"b", b"c"]
        ottla_broker.group("billing").wait(state="Empty", lag=0)
        rewind(admin, "billing", "orders")
        assert ottla_broker.group("billing").committed() == {("orders", 0): 0}
    assert admin.delete_groups(["billing"]) == {"billing": "OK"}
    ottla_broker.group("billing").wait(state="Dead")
