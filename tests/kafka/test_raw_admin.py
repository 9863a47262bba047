"""Requests of administrators, with both brokers: topics in pages, resources, reassignments. The same requests get the same answers."""

from typing import Any

import pytest

from ottla.core.wire.api_keys import ApiKey

TOPIC, BROKER = 2, 4
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
