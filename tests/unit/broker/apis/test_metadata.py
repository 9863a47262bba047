"""Metadata: all topics, some topics, topics that come to be by being asked for."""

import uuid
from functools import partial

import pytest

from ottla.broker.apis import metadata as metadata_api
from ottla.config import BrokerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.sessions import client_session


def ask(api, version: int, names, create: bool = True):
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    return api.ask(
        ApiKey.METADATA,
        version,
        topics=topics,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


@pytest.mark.parametrize("version", range(14))
def test_every_version_shows_topic_and_broker(api, make_topic, version: int) -> None:
    topic = make_topic("t", 3)
    answer = ask(api, version, ["t"])
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "127.0.0.1", 9092)]
    (shown,) = answer.topics
    assert (shown.name, shown.error_code, [part.leader_id for part in shown.partitions]) == ("t", 0, [1, 1, 1])
    if version >= 10:
        assert shown.topic_id == uuid.UUID(bytes=topic.topic_id)
    if version >= 8:
        assert shown.topic_authorized_operations == 3576


@pytest.mark.parametrize(("version", "names"), [(0, []), (1, None), (13, None)])
def test_all_topics(api, make_topic, version: int, names) -> None:
    make_topic("a")
    make_topic("b")
    assert sorted(topic.name for topic in ask(api, version, names).topics) == ["a", "b"]


def test_an_empty_list_asks_for_no_topic_from_version_1_on(api, make_topic) -> None:
    make_topic("a")
    assert ask(api, 1, []).topics == ()


def test_a_topic_that_is_made_by_a_request_is_in_the_next_response(api) -> None:
    (first,) = ask(api, 12, ["new"]).topics
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    assert list(api.cluster.cluster_metadata.topics) == ["new"]
    assert ask(api, 12, ["new"]).topics[0].error_code == ErrorCode.NONE


def test_a_topic_may_be_shown_at_once(api) -> None:
    api.cluster.topics.are_shown_at_once = True
    (shown,) = ask(api, 12, ["new"]).topics
    assert (shown.error_code, len(shown.partitions)) == (ErrorCode.NONE, 1)


def test_it_is_not_made_when_the_client_or_the_broker_says_no(make_api) -> None:
    strict = make_api({"auto.create.topics.enable": "false"})
    assert ask(strict, 12, ["new"]).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(make_api(), 12, ["new"], create=False).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(make_api(), 12, ["bad name"]).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["__cluster_metadata", "__transaction_state", "__share_group_state"])
@pytest.mark.parametrize("version", range(14))
def test_what_is_the_brokers_own_or_apache_kafkas_alone_is_not_made(api, version: int, name: str) -> None:
    assert [topic.error_code for topic in ask(api, version, [name]).topics] == [3]
    assert api.cluster.cluster_metadata.topics == {}


def test_the_offsets_topic_is_made_with_its_own_settings(make_api) -> None:
    api = make_api({"offsets.topic.num.partitions": "7"})
    (first,) = ask(api, 12, ["__consumer_offsets"]).topics
    assert (first.error_code, first.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    (topic,) = ask(api, 12, ["__consumer_offsets"]).topics
    assert (len(topic.partitions), topic.is_internal) == (7, True)
    assert api.cluster.cluster_metadata.topics["__consumer_offsets"].configs["cleanup.policy"] == "compact"


def test_by_id(api, make_topic) -> None:
    topic = make_topic("t")
    known, unknown = uuid.UUID(bytes=topic.topic_id), uuid.uuid4()
    answer = api.ask(
        ApiKey.METADATA,
        12,
        topics=[{"name": None, "topic_id": known}, {"name": None, "topic_id": unknown}],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    assert [(shown.name, shown.error_code) for shown in answer.topics] == [("t", 0), (None, 100)]


def test_leader_epochs_rise_after_a_crash_and_not_after_a_stop(make_api) -> None:
    first = make_api()
    first.ask(
        ApiKey.METADATA,
        12,
        topics=[{"name": "t", "topic_id": None}],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    crashed = make_api(files=first.files)
    (shown,) = ask(crashed, 12, ["t"]).topics
    assert [part.leader_epoch for part in shown.partitions] == [1]
    asked = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": 1}
    (listed,) = crashed.ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": [asked]}]).topics
    assert (listed.partitions[0].error_code, listed.partitions[0].leader_epoch) == (0, 1)
    crashed.cluster.close()
    (shown,) = ask(make_api(files=first.files), 12, ["t"]).topics
    assert [part.leader_epoch for part in shown.partitions] == [1]


class TopicsDouble:
    """Notes which topics are to be created, and refuses them."""

    are_shown_at_once = False

    def __init__(self) -> None:
        self.created: list[str] = []

    def ensure_in_pieces(self, names):
        self.created += names
        yield
        return dict.fromkeys(names, ErrorCode.POLICY_VIOLATION)


@pytest.mark.parametrize(("may_create", "created", "error"), [
    (True, ["u"], ErrorCode.POLICY_VIOLATION),
    (False, [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
])  # fmt: skip
def test_it_shows_brokers_and_topics(one_api, metadata, brokers, may_create: bool, created: list[str], error: ErrorCode) -> None:
    topics = TopicsDouble()
    api = one_api(
        metadata_api.API,
        brokers=brokers,
        cluster_id="c",
        cluster_metadata=metadata,
        cluster_topics=topics,
        config=BrokerConfig(),
    )
    api.session = client_session(partial(brokers.endpoint, "PLAINTEXT"))
    asked = [{"topic_id": None, "name": name} for name in ("t", "u")]
    operations = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    answer = api.ask(ApiKey.METADATA, 9, topics=asked, allow_auto_topic_creation=may_create, **operations)
    assert ([(each.node_id, each.host) for each in answer.brokers], answer.cluster_id, answer.controller_id) == (
        [(1, "a"), (2, "b")],
        "c",
        1,
    )
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", ErrorCode.NONE), ("u", error)]
    assert [part.leader_id for part in answer.topics[0].partitions] == [1, 2]
    assert topics.created == created
