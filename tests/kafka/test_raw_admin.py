"""Requests of administrators, with both brokers: topics in pages, resources, reassignments. The same requests get the same answers."""

from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey

TOPIC, BROKER = 2, 4
DEFAULT_SOURCE = 5
METADATA = "__cluster_metadata"

pytestmark = pytest.mark.kafka


def test_describe_topic_partitions(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        first, second, unknown = talk.name("a"), talk.name("b"), talk.name("c")
        talk.make_topic(first, 3)
        talk.make_topic(second, 1)

        def describe(*names: str, **values: Any) -> None:
            talk.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": name} for name in names], **values)

        describe(first)
        describe(unknown, second, first, second)
        describe("no spaces", "..", "x" * 250)
        for limit in (-1, 0, 2, 3, 4):
            describe(first, second, unknown, response_partition_limit=limit)
        for name, number in ((first, 1), (first, 3), (first, 9), (second, 0), (unknown, 5), (first, -1), (talk.name("aa"), 0)):
            describe(first, second, unknown, cursor={"topic_name": name, "partition_index": number})
        describe(response_partition_limit=2, cursor={"topic_name": first, "partition_index": 0})
        describe(cursor={"topic_name": first, "partition_index": -1})
        describe(response_partition_limit=1, cursor={"topic_name": talk.name("aa"), "partition_index": 7})

    same_answers(conversation, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_list_config_resources(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        talk.ask(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[16])
        if version == 0:
            talk.ask(ApiKey.LIST_CONFIG_RESOURCES)
            return
        for types in ([BROKER], [BROKER, 16, BROKER], [99], [TOPIC, 99]):
            talk.ask(ApiKey.LIST_CONFIG_RESOURCES, resource_types=types)
        for types in ([], [TOPIC], [TOPIC, BROKER]):
            answer = talk.quietly(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=types)
            listed = {(int(each.resource_type), each.resource_name) for each in answer.config_resources}
            talk.answers.append([((TOPIC, topic) in listed), ((BROKER, "1") in listed), ((BROKER, "") in listed)])

    same_answers(conversation, version)


def test_list_partition_reassignments(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        talk.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None)
        for name, numbers in ((topic, [0, 0, 9]), (topic, []), (talk.name("nowhere"), [0])):
            talk.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=[{"name": name, "partition_indexes": numbers}])

    same_answers(conversation, 0)


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        def describe(*topics: tuple[str, list[int]]) -> Any:
            asked = [{"topic_name": name, "partitions": [{"partition_index": each} for each in numbers]} for name, numbers in topics]
            return talk.ask(ApiKey.DESCRIBE_QUORUM, topics=asked)

        for topics in ([], [(METADATA, [])], [(METADATA, [1])], [(METADATA, [0, 0])], [(METADATA, [0])] * 2, [("nowhere", [0, 1])]):
            describe(*topics)
        quorum = talk.quietly(ApiKey.DESCRIBE_QUORUM, version, topics=[{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}])
        (partition,) = quorum.topics[0].partitions
        (voter,) = partition.current_voters
        talk.answers.append([quorum.error_code, partition.error_code, partition.leader_id, voter.replica_id, partition.observers])
        talk.answers.append([partition.leader_epoch >= 0, 0 < partition.high_watermark <= voter.log_end_offset])
        if version >= 1:
            talk.answers.append([voter.last_fetch_timestamp > 0, voter.last_caught_up_timestamp > 0])
        if version >= 2:
            talk.answers.append([voter.replica_directory_id is not None, [node.node_id for node in quorum.nodes]])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", [1, 2])
def test_alter_replica_log_dirs(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, nowhere = talk.name("topic"), talk.name("nowhere")
        talk.make_topic(topic, 2)
        (here,) = [each.log_dir for each in talk.quietly(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[]).results]

        def move(*directories: tuple[str, dict[str, list[int]]]) -> None:
            dirs = [
                {"path": path, "topics": [{"name": name, "partitions": numbers} for name, numbers in topics.items()]}
                for path, topics in directories
            ]
            talk.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs)

        move((here, {topic: [0, 1]}))
        move((here, {topic: [0, 0, 9, -1], nowhere: [0], METADATA: [0], "no spaces": [0]}))
        for path in ("/nowhere", "relative", "", f"{here}/"):
            move((path, {topic: [0], nowhere: [0]}))
        move((here, {topic: [0]}), ("/nowhere", {topic: [0]}))
        move((here, {topic: []}), (here, {}))
        move()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 1, retention_ms="1000")

        def alter(resource: str, *settings: tuple[str, str | None], kind: int = TOPIC, **values: Any) -> None:
            configs = [{"name": name, "value": value} for name, value in settings]
            resources = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
            talk.ask(ApiKey.ALTER_CONFIGS, resources=resources, **values)

        def described() -> list[tuple[str, str, int]]:
            asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["cleanup.policy", "retention.ms", "segment.ms"]}
            configs = talk.quietly(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]).results[0].configs
            return sorted((each.name, each.value, int(each.config_source)) for each in configs)

        alter(topic, ("cleanup.policy", "compact"), ("segment.ms", "77777"))
        talk.until(lambda: described()[2][1] == "77777", "the settings")
        talk.answers.append(described())
        alter(topic, ("segment.ms", "88888"), validate_only=True)
        alter(topic, ("retention.ms", "long"))
        alter(topic, ("retention.ms", None))
        alter(topic, ("no.such", "1"))
        alter(topic, ("no.such", None))
        alter(topic, ("retention.ms", "1"), ("retention.ms", "2"))
        alter(talk.name("nowhere"), ("retention.ms", "1"))
        alter("no spaces", ("retention.ms", "1"))
        alter("", ("retention.ms", "1"))
        alter("1", ("node.id", "3"), kind=BROKER)
        for broker in ("9", "x"):
            alter(broker, ("log.retention.ms", "3"), kind=BROKER)
        alter("1", ("retention.ms", "1"), kind=99)
        talk.ask(ApiKey.ALTER_CONFIGS, resources=[])
        alter(topic)
        talk.until(lambda: described()[2][2] == DEFAULT_SOURCE, "the defaults")
        talk.answers.append(described())

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, nowhere = talk.name("topic"), talk.name("nowhere")
        talk.make_topic(topic, 2)

        def elect(*topics: tuple[str, list[int]], kind: int = 0) -> None:
            asked = [{"topic": name, "partitions": numbers} for name, numbers in topics]
            talk.ask(ApiKey.ELECT_LEADERS, election_type=kind, topic_partitions=asked, timeout=5000)

        for kind in (0, 1, 2, -1):
            elect((topic, [0, 1]), kind=kind)
            elect(kind=kind)
            everything = talk.quietly(ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=None, timeout=5000)
            talk.answers.append([list(each.partition_result) for each in everything.replica_election_results if each.topic == topic])
        elect((topic, [9, -1]), (nowhere, [0]), (nowhere, []), (topic, []))
        elect((topic, [0, 0]), (topic, [1]), ("no spaces", [0]))

    same_answers(conversation, version)


@pytest.mark.parametrize("version", [0, 1])
def test_alter_partition_reassignments(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, nowhere = talk.name("topic"), talk.name("nowhere")
        talk.make_topic(topic, 2)

        def reassign(*topics: tuple[str, list[tuple[int, list[int] | None]]], **values: Any) -> None:
            asked = [
                {"name": name, "partitions": [{"partition_index": number, "replicas": replicas} for number, replicas in partitions]}
                for name, partitions in topics
            ]
            talk.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=asked, timeout=5000, **values)

        reassign((topic, [(0, [1]), (1, [1])]))
        for replicas in ([9], [1, 1], [], [-1], [1, 9], None):
            reassign((topic, [(0, replicas)]))
            reassign((topic, [(0, replicas)]), allow_replication_factor_change=False)
        reassign((topic, [(9, [1]), (-1, [1]), (9, None)]), (nowhere, [(0, [1]), (0, None)]), ("", [(0, None)]))
        reassign((topic, []), (nowhere, []))
        reassign()
        reassign((topic, [(0, [1]), (0, [1])]), (topic, [(0, None)]))

    same_answers(conversation, version)


def test_settings_that_were_never_set_can_be_deleted(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic)
        for kind, resource, name in (
            (TOPIC, topic, "no.such"),
            (TOPIC, topic, "leader.replication.throttled.replicas"),
            (TOPIC, topic, "segment.ms"),
            (BROKER, "1", "no.such"),
            (BROKER, "", "no.such"),
            (BROKER, "1", "leader.replication.throttled.rate"),
            (BROKER, "1", "node.id"),
        ):
            configs = [{"name": name, "config_operation": 1, "value": None}]
            resources = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
            talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources)

    same_answers(conversation, 1)


def test_unknown_settings_of_brokers(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        name = talk.name("no.such")

        def alter(operation: int, value: str | None, broker: str = "1", **values: Any) -> None:
            configs = [{"name": name, "config_operation": operation, "value": value}]
            resources = [{"resource_type": BROKER, "resource_name": broker, "configs": configs}]
            talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, **values)

        def described(broker: str) -> Any:
            asked = {"resource_type": BROKER, "resource_name": broker, "configuration_keys": [name]}
            return talk.quietly(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked], include_synonyms=True).results[0].configs

        for broker in ("1", ""):
            for operation in (2, 3):
                alter(operation, "a", broker)
            alter(0, "a", broker, validate_only=True)
            alter(0, "a", broker)
            talk.until(lambda broker=broker: described(broker), "the setting")
            (found,) = described(broker)
            talk.answers.append([found.value, found.read_only, found.config_source, found.is_sensitive, found.config_type])
            talk.answers.append([(each.value, each.source) for each in found.synonyms])
        for broker in ("1", ""):
            alter(1, None, broker)
        talk.until(lambda: not (described("1") or described("")), "the setting to be gone")

    same_answers(conversation, 1)
