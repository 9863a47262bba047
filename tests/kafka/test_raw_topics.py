"""Every version of the APIs about the cluster and its topics, with both brokers: the same requests get the same answers."""

import uuid
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import versions_of
from ottla.testing.raw_client import Disconnected, RawClient

TOPIC, BROKER = 2, 4
UNKNOWN_ID = uuid.UUID(int=12345)

# What Apache Kafka 4.3 advertises for the APIs that we serve.
ADVERTISED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5),
    14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 22: (0, 5), 32: (1, 4), 37: (0, 3), 42: (0, 2),
    33: (0, 2), 34: (1, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 55: (0, 2), 60: (0, 2), 74: (0, 1), 75: (0, 0),
}  # fmt: skip

pytestmark = pytest.mark.kafka


def versions(api_key: int) -> list[int]:
    low, high = ADVERTISED[api_key]
    return list(range(low, high + 1))


def advertised(bootstrap_servers: str) -> dict[int, tuple[int, int]]:
    with RawClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.API_VERSIONS, 3, client_software_name="ottla", client_software_version="1")
    return {int(each.api_key): (int(each.min_version), int(each.max_version)) for each in answer.api_keys}


def test_we_advertise_what_apache_kafka_advertises(both: Any) -> None:
    ours, theirs = advertised(both["ottla"]), advertised(both["apache-kafka"])
    assert {key: theirs[key] for key in ADVERTISED} == ADVERTISED, "the table above is Apache Kafka's"
    assert ours == {key: theirs[key] for key in ours}
    assert set(ADVERTISED) <= set(ours)


def test_every_advertised_version_can_be_spoken_here() -> None:
    for key, (low, high) in ADVERTISED.items():
        spoken = versions_of(key)
        assert high in spoken
        assert low in spoken or key == 0, "Produce 0 to 2 are advertised and refused"


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
def test_api_versions(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        talk.ask(ApiKey.API_VERSIONS, client_software_name="ottla", client_software_version="1.0")
        talk.ask(ApiKey.API_VERSIONS, client_software_name="no spaces", client_software_version="1.0")
        talk.ask(ApiKey.API_VERSIONS, client_software_name="ottla", client_software_version="")

    same_answers(conversation, version)


def test_api_versions_of_the_future_is_answered_in_version_0(both: Any) -> None:
    answers = []
    for bootstrap_servers in both.values():
        with RawClient(bootstrap_servers) as client:
            client.send_frame(bytes.fromhex("0012 7fff 00000007 ffff 00"))
            frame = client.receive_frame()
            answers.append((frame[:4], frame[4:6], len(frame) > 6))
    assert answers == [(b"\0\0\0\7", b"\0\x23", True)] * 2


def test_a_version_that_apache_kafka_has_removed_closes_the_connection(both: Any) -> None:
    describe_broker_in_version_0 = bytes.fromhex("0020 0000 00000007 ffff 00000001 04 0001 31 ffffffff")
    for bootstrap_servers in both.values():
        with RawClient(bootstrap_servers) as client:
            client.send_frame(describe_broker_in_version_0)
            with pytest.raises(Disconnected):
                client.receive_frame()


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        topic_id = talk.make_topic(topic, 2)
        talk.ask(ApiKey.METADATA, topics=[{"name": topic}], allow_auto_topic_creation=False)
        talk.ask(ApiKey.METADATA, topics=[{"name": "no spaces"}], allow_auto_topic_creation=False)
        if version >= 4:
            talk.ask(ApiKey.METADATA, topics=[{"name": talk.name("nowhere")}], allow_auto_topic_creation=False)
        if version >= 1:
            talk.ask(ApiKey.METADATA, topics=[], allow_auto_topic_creation=False)
        if version >= 12:
            talk.ask(ApiKey.METADATA, topics=[{"topic_id": topic_id}], allow_auto_topic_creation=False)
            talk.ask(ApiKey.METADATA, topics=[{"topic_id": UNKNOWN_ID}], allow_auto_topic_creation=False)
        everything = talk.quietly(ApiKey.METADATA, version, topics=[] if version == 0 else None)
        talk.answers.append([(each.error_code, len(each.partitions)) for each in everything.topics if each.name == topic])
        if version >= 8:
            talk.ask(
                ApiKey.METADATA,
                topics=[{"name": topic}],
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )

    same_answers(conversation, version)


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_makes_topics_on_demand(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("wanted")

        def ask() -> Any:
            return talk.quietly(ApiKey.METADATA, version, topics=[{"name": topic}], allow_auto_topic_creation=True).topics[0]

        talk.ask(ApiKey.METADATA, topics=[{"name": topic}, {"name": "no spaces"}], allow_auto_topic_creation=True)
        talk.until(lambda: ask().error_code == ErrorCode.NONE, "the topic")
        talk.ask(ApiKey.METADATA, topics=[{"name": topic}], allow_auto_topic_creation=True)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
def test_create_topics(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        def create(name: str, **values: Any) -> None:
            base = {"name": name, "num_partitions": 2, "replication_factor": 1}
            talk.ask(ApiKey.CREATE_TOPICS, timeout=5000, topics=[base | values])

        create(talk.name("plain"), configs=[{"name": "retention.ms", "value": "1000"}])
        create(talk.name("plain"))
        create("no spaces")
        create("")
        create("..")
        create("x" * 250)
        create(talk.name("zero"), num_partitions=0)
        create(talk.name("default"), num_partitions=-1, replication_factor=-1)
        create(talk.name("minus"), num_partitions=-2)
        create(talk.name("replicas"), replication_factor=2)
        create(talk.name("none"), replication_factor=0)
        create(talk.name("config"), configs=[{"name": "no.such", "value": "1"}])
        create(talk.name("value"), configs=[{"name": "retention.ms", "value": "long"}])
        create(talk.name("null"), configs=[{"name": "retention.ms", "value": None}])
        by_hand = {"num_partitions": -1, "replication_factor": -1}
        create(talk.name("assigned"), **by_hand, assignments=[{"partition_index": each, "broker_ids": [1]} for each in (0, 1)])
        create(talk.name("gap"), **by_hand, assignments=[{"partition_index": 1, "broker_ids": [1]}])
        create(talk.name("stranger"), **by_hand, assignments=[{"partition_index": 0, "broker_ids": [9]}])
        create(talk.name("both"), assignments=[{"partition_index": 0, "broker_ids": [1]}])
        checked = {"name": talk.name("checked"), "num_partitions": 1, "replication_factor": 1}
        talk.ask(ApiKey.CREATE_TOPICS, timeout=5000, validate_only=True, topics=[checked])
        talk.ask(ApiKey.CREATE_TOPICS, timeout=5000, topics=[checked, checked])
        talk.ask(ApiKey.CREATE_TOPICS, timeout=5000, topics=[])

    same_answers(conversation, version)


SETTINGS_TO_CHECK = {
    "cleanup.policy": [
        "delete",
        "compact",
        "compact,delete",
        "delete, compact",
        "",
        "Delete",
        "none",
        "delete,",
        "delete,delete",
        ",compact",
    ],
    "compression.type": ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "none", "brotli", "", " gzip ", "Gzip"],
    "compression.gzip.level": ["-1", "0", "9", "10", "1_0"],
    "compression.lz4.level": ["0", "17", "18"],
    "compression.zstd.level": ["-131072", "-131073", "22", "23"],
    "delete.retention.ms": ["0", "-1"],
    "file.delete.delay.ms": ["0", "-1"],
    "flush.messages": ["1", "0"],
    "flush.ms": ["0", "-1"],
    "index.interval.bytes": ["0", "-1", "2147483648"],
    "max.compaction.lag.ms": ["1", "0"],
    "max.message.bytes": ["0", "-1", "1.5", " 7 ", "+7", "0x10"],
    "message.timestamp.after.max.ms": ["0", "-1"],
    "message.timestamp.before.max.ms": ["0", "-1"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime", "createtime", ""],
    "min.cleanable.dirty.ratio": ["0", "1", "1.1", "-0.1", "x", "0.5f", "1e-3", "0x1p-1", "1_0", "inf", "-0", ""],
    "min.compaction.lag.ms": ["0", "-1"],
    "min.insync.replicas": ["1", "0", "2"],
    "preallocate": ["true", "FALSE", "yes", ""],
    "retention.bytes": ["-1", "-2", "0", "x"],
    "retention.ms": ["-1", "-2", "0", "9223372036854775807", "9223372036854775808"],
    "segment.bytes": [
        "1048576",
        "1_048_576",
        "+1048576",
        " 1048576\t",
        "\u0661\u0660\u0660\u0660\u0660\u0660\u0660",
        "",
        "1048575",
        "20000",
        "14",
        "13",
        "2147483647",
        "2147483648",
    ],
    "segment.index.bytes": ["4", "3", "-1"],
    "segment.jitter.ms": ["0", "-1"],
    "segment.ms": ["1", "0"],
    "unclean.leader.election.enable": ["true", "no"],
}


@pytest.mark.parametrize("setting", SETTINGS_TO_CHECK)
def test_values_of_topic_settings(same_answers: Any, setting: str) -> None:
    def conversation(talk: Any) -> None:
        for value in SETTINGS_TO_CHECK[setting]:
            settings = [{"name": setting, "value": value}]
            topic = {"name": talk.name("topic"), "num_partitions": 1, "replication_factor": 1, "configs": settings}
            answer = talk.quietly(ApiKey.CREATE_TOPICS, 4, timeout=5000, validate_only=True, topics=[topic])
            talk.answers.append((value, int(answer.topics[0].error_code)))
            if "\u0661" not in value and value.isprintable():
                talk.answers.append(answer.topics[0].error_message)

    same_answers(conversation, 4)


SETTINGS_THAT_CANNOT_BE = [
    {"no.such": "1"},
    {"retention.ms": None},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
    {"retention.ms": "1_000", "no.such": "1"},
]


@pytest.mark.parametrize("given", SETTINGS_THAT_CANNOT_BE, ids=str)
def test_settings_that_cannot_be_and_their_sentences(same_answers: Any, given: dict[str, str | None]) -> None:
    def conversation(talk: Any) -> None:
        settings = [{"name": name, "value": value} for name, value in given.items()]
        topic = {"name": talk.name("topic"), "num_partitions": 1, "replication_factor": 1, "configs": settings}
        (answer,) = talk.quietly(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[topic]).topics
        talk.answers.append((int(answer.error_code), answer.error_message))

    same_answers(conversation, 7)


SET, DELETE, APPEND, SUBTRACT = range(4)
CHANGES = [
    ("cleanup.policy", APPEND, "compact"),
    ("cleanup.policy", APPEND, "compact"),
    ("cleanup.policy", APPEND, " delete"),
    ("cleanup.policy", APPEND, ""),
    ("cleanup.policy", APPEND, "shred"),
    ("cleanup.policy", SUBTRACT, "shred"),
    ("cleanup.policy", SUBTRACT, "delete, compact"),
    ("cleanup.policy", SUBTRACT, "compact,delete"),
    ("cleanup.policy", SUBTRACT, "delete"),
    ("cleanup.policy", DELETE, None),
    ("cleanup.policy", APPEND, "compact,compact"),
    ("retention.ms", APPEND, "5"),
    ("retention.ms", SUBTRACT, "5"),
    ("retention.ms", SET, "1_000"),
    ("retention.ms", SET, " +5 "),
    ("compression.type", SET, ""),
    ("min.compaction.lag.ms", SET, "100"),
    ("max.compaction.lag.ms", SET, "99"),
    ("max.compaction.lag.ms", SET, "100"),
    ("no.such", SET, "1"),
    ("no.such", APPEND, "1"),
]


def test_settings_are_altered_and_refused_alike(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("altered")
        talk.make_topic(topic)
        for name, operation, value in CHANGES:
            configs = [{"name": name, "config_operation": operation, "value": value}]
            resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
            (answer,) = talk.quietly(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
            sentence = answer.error_message if answer.error_code else None
            talk.answers.append((name, operation, value, int(answer.error_code), sentence))
        wanted = {name for name, *_ in CHANGES}
        asked = [{"resource_type": 2, "resource_name": topic, "configuration_keys": sorted(wanted - {"no.such"})}]

        def described() -> dict[str, Any]:
            (found,) = talk.quietly(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=False).results
            return {each.name: (each.value, int(each.config_source)) for each in found.configs}

        talk.until(lambda: described()["max.compaction.lag.ms"][0] == "100", "the last change")
        talk.answers.append(described())

    same_answers(conversation, 1)


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_delete_topics(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        first, second = talk.name("first"), talk.name("second")
        ids = [talk.make_topic(first), talk.make_topic(second)]
        if version >= 6:
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topics=[{"name": first}, {"name": talk.name("nowhere")}])
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topics=[{"topic_id": ids[1]}])
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topics=[{"topic_id": UNKNOWN_ID}])
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topics=[{"name": second, "topic_id": ids[1]}])
        else:
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topic_names=[first, talk.name("nowhere")])
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topic_names=[first])
            talk.ask(ApiKey.DELETE_TOPICS, timeout=5000, topic_names=[second, second])
        talk.ask(ApiKey.DELETE_TOPICS, timeout=5000)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_create_partitions(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)

        def raise_to(count: int, name: str = topic, **values: Any) -> None:
            talk.ask(ApiKey.CREATE_PARTITIONS, timeout=5000, topics=[{"name": name, "count": count} | values])

        raise_to(1)
        raise_to(2)
        raise_to(0)
        raise_to(3, talk.name("nowhere"))
        raise_to(4, assignments=[{"broker_ids": [1]}])
        raise_to(4, assignments=[{"broker_ids": [1]}, {"broker_ids": [9]}])
        raise_to(4, assignments=[{"broker_ids": [1]}, {"broker_ids": [1]}])
        talk.ask(ApiKey.CREATE_PARTITIONS, timeout=5000, validate_only=True, topics=[{"name": topic, "count": 9}])
        talk.ask(ApiKey.CREATE_PARTITIONS, timeout=5000, topics=[{"name": topic, "count": 6}, {"name": topic, "count": 7}])
        raise_to(5)

    same_answers(conversation, version)


SETTINGS_OF_GROUPS = [
    "group.coordinator.append.linger.ms",
    "group.coordinator.background.threads",
    "group.coordinator.cached.buffer.max.bytes",
    "group.coordinator.threads",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.load.buffer.size",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.segment.bytes",
]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_describe_configs(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 1, retention_ms="1000")

        def describe(kind: int, name: str, keys: list[str], **values: Any) -> None:
            asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            talk.ask(ApiKey.DESCRIBE_CONFIGS, resources=[asked], **values)

        describe(TOPIC, topic, ["retention.ms"])
        describe(TOPIC, topic, ["cleanup.policy"])
        describe(TOPIC, topic, ["cleanup.policy"], include_synonyms=True)
        describe(TOPIC, topic, ["retention.ms"], include_synonyms=True)
        describe(TOPIC, topic, ["no.such.setting"])
        describe(TOPIC, talk.name("nowhere"), ["retention.ms"])
        describe(TOPIC, "no spaces", ["retention.ms"])
        describe(BROKER, "1", ["num.partitions"])
        describe(BROKER, "1", SETTINGS_OF_GROUPS)
        describe(BROKER, "9", ["num.partitions"])
        describe(BROKER, "x", ["num.partitions"])
        describe(99, "1", ["num.partitions"])
        asked = {"resource_type": TOPIC, "resource_name": topic}
        for keys in ([], None):
            described = talk.quietly(ApiKey.DESCRIBE_CONFIGS, version, resources=[asked | {"configuration_keys": keys}])
            talk.answers.append(len(described.results[0].configs) > 20)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_incremental_alter_configs(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)

        def alter(name: str, value: str | None, operation: int = 0, resource: str = topic, kind: int = TOPIC, **values: Any) -> None:
            change = {"name": name, "value": value, "config_operation": operation}
            resources = [{"resource_type": kind, "resource_name": resource, "configs": [change]}]
            talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, **values)

        alter("retention.ms", "1234")
        alter("retention.ms", "long")
        alter("retention.ms", None)
        alter("no.such.setting", "1")
        alter("cleanup.policy", "compact", 2)
        alter("cleanup.policy", "delete", 3)
        alter("retention.ms", "1", 2)
        alter("retention.ms", None, 1)
        alter("retention.ms", "1", resource=talk.name("nowhere"))
        alter("retention.ms", "1", resource="no spaces")
        alter("retention.ms", "5", validate_only=True)
        alter("retention.ms", "5", kind=99)
        twice = [{"name": "retention.ms", "value": value, "config_operation": 0} for value in ("1", "2")]
        resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": twice}]
        talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources)
        asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["cleanup.policy", "retention.ms"]}

        def described() -> list[tuple[str, str]]:
            configs = talk.quietly(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]).results[0].configs
            return sorted((each.name, each.value) for each in configs)

        talk.until(lambda: described() == [("cleanup.policy", "compact"), ("retention.ms", "604800000")], "the settings")
        talk.answers.append(described())

    same_answers(conversation, version)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
def test_describe_cluster(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        talk.ask(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
        talk.ask(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1, include_cluster_authorized_operations=True)
        talk.ask(ApiKey.DESCRIBE_CLUSTER, endpoint_type=9)

    same_answers(conversation, version)


def test_the_metadata_topic_is_out_of_reach_by_name_and_by_id(same_answers: Any) -> None:
    name, its_id = "__cluster_metadata", uuid.UUID(int=1)
    named = {"name": name, "partitions": [{"partition_index": 0, "offset": -1}]}
    asked = {"partition": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1, "log_start_offset": -1, "last_fetched_epoch": -1}
    record = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"x")]))

    def conversation(talk: Any) -> None:
        new = {"name": name, "num_partitions": 1, "replication_factor": 1}
        talk.ask(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[new])
        talk.ask(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[new], validate_only=True)
        talk.ask(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[new, new])
        for version in versions(ApiKey.METADATA):
            talk.ask(ApiKey.METADATA, version, topics=[{"name": name}], allow_auto_topic_creation=True)
        talk.ask(ApiKey.METADATA, 13, topics=[{"topic_id": its_id}])
        for version, topic in ((9, {"name": name}), (13, {"topic_id": its_id})):
            data = [topic | {"partition_data": [{"index": 0, "records": record}]}]
            answer = talk.quietly(ApiKey.PRODUCE, version, acks=-1, timeout=5000, topic_data=data)
            talk.answers.append([each.error_code for each in answer.responses[0].partition_responses])
        for version, topic in ((11, {"topic": name}), (17, {"topic_id": its_id})):
            answer = talk.quietly(
                ApiKey.FETCH, version, replica_id=-1, max_wait=10, session_epoch=-1, topics=[topic | {"partitions": [asked]}]
            )
            talk.answers.append([each.error_code for each in answer.responses[0].partitions])
        talk.ask(ApiKey.LIST_OFFSETS, 8, replica_id=-1, topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}])
        talk.ask(ApiKey.DELETE_RECORDS, 2, timeout=5000, topics=[named])
        talk.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[{"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1}]}],
        )
        talk.ask(ApiKey.DELETE_TOPICS, 5, timeout=5000, topic_names=[name])
        talk.ask(ApiKey.DELETE_TOPICS, 6, timeout=5000, topics=[{"name": name}])
        talk.ask(ApiKey.DELETE_TOPICS, 6, timeout=5000, topics=[{"topic_id": its_id}])
        talk.ask(ApiKey.CREATE_PARTITIONS, 3, timeout=5000, topics=[{"name": name, "count": 3}])
        setting = {"name": "retention.ms", "config_operation": 0, "value": "1"}
        talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[{"resource_type": TOPIC, "resource_name": name, "configs": [setting]}])
        talk.ask(
            ApiKey.DESCRIBE_CONFIGS, 4, resources=[{"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]}]
        )
        group = talk.name("group")
        talk.wait_for_coordinator(group)
        commit = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
        talk.ask(ApiKey.OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, topics=[{"name": name, "partitions": [commit]}])
        talk.answers.append(
            [each.topics for each in talk.quietly(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": name, "partitions": [0]}]).results]
        )

    same_answers(conversation, 0)
