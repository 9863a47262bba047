"""CreateTopics: each topic has a result of its own."""

import pytest

from ottla.broker.apis import create_topics
from ottla.broker.network.throttling import Throttling
from ottla.metadata.client_quotas import ClientQuotas
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

WITHOUT_QUOTAS = Throttling(ClientQuotas(), lambda: 0.0, windows=(11, 1), controller_windows=(11, 1))


def new(name: str, partitions: int = -1, replicas: int = -1, **configs: str) -> dict:
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "assignments": [], "configs": entries}


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_makes_topics(api, version: int) -> None:
    answer = api.ask(ApiKey.CREATE_TOPICS, version, topics=[new("a", 2), new("bad name"), new("c", 0)], timeout=1000, validate_only=False)
    assert [topic.error_code for topic in answer.topics] == [0, 17, 37]
    assert len(api.cluster.cluster_metadata.topics["a"].leaders) == 2
    if version >= 5:
        configs = {config.name: config for config in answer.topics[0].configs}
        assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (2, 1)
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("604800000", 5)


def test_only_checking_makes_nothing(api) -> None:
    answer = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a", 2)], timeout=1000, validate_only=True)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 2)
    assert answer.topics[0].topic_id is not None
    assert api.cluster.cluster_metadata.topics == {}


def test_a_name_given_twice_is_refused_once(api) -> None:
    answer = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a"), new("a"), new("b")], timeout=1000, validate_only=False)
    assert [topic.error_code for topic in answer.topics] == [42, 0]


def test_settings_are_kept(api) -> None:
    api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a", retention_ms="5")], timeout=1000, validate_only=False)
    assert api.cluster.cluster_metadata.topics["a"].configs == {"retention.ms": "5"}


def test_topics_are_there_after_a_restart(make_api) -> None:
    first = make_api()
    first.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a", 3, retention_ms="5")], timeout=1000, validate_only=False)
    topic = first.cluster.cluster_metadata.topics["a"]
    second = make_api(files=first.files)
    found = second.cluster.cluster_metadata.topics["a"]
    assert (found.topic_id, found.leaders, found.configs) == (topic.topic_id, topic.leaders, topic.configs)
    assert second.cluster.cluster_id == first.cluster.cluster_id


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("retention_ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("compression_type", "", "Invalid value  for configuration compression.type: String must be one of: uncompressed, zstd, lz4, "),
        ("retention_mss", "5", "Unknown topic config name: retention.mss; did you mean 'retention.ms'?"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_kafkas_sentence(api, setting: str, value: str, sentence: str) -> None:
    (topic,) = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a", **{setting: value})], timeout=1000, validate_only=False).topics
    assert topic.error_code == ErrorCode.INVALID_CONFIG
    assert topic.error_message.startswith(sentence)
    assert api.cluster.cluster_metadata.topics == {}


def test_many_topics_get_no_suggestions(api) -> None:
    asked = [new(f"t{number}", retention_mss="5") for number in range(11)]
    answer = api.ask(ApiKey.CREATE_TOPICS, 7, topics=asked, timeout=1000, validate_only=False)
    assert {topic.error_message for topic in answer.topics} == {"Unknown topic config name: retention.mss"}


class TopicsDouble:
    """Gives each topic the same result, and notes whether it was only validated."""

    def __init__(self, result) -> None:
        self.result = result
        self.calls: list[str] = []

    def create(self, new, *, validate_only: bool):
        assert validate_only
        self.calls.append(f"validate {new.name}")
        return self.result

    def create_in_pieces(self, news):
        self.calls += [f"create {new.name}" for new in news]
        yield
        return [self.result] * len(news)


@pytest.mark.parametrize(("validate_only", "call"), [(True, "validate"), (False, "create")])
def test_topics_are_created_or_only_validated(one_api, metadata, validate_only: bool, call: str) -> None:
    topics = TopicsDouble(metadata.topics["t"])
    api = one_api(create_topics.API, cluster_metadata=metadata, cluster_topics=topics, throttling=WITHOUT_QUOTAS)
    answer = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a"), new("b"), new("b")], timeout=1000, validate_only=validate_only)
    assert [(topic.name, topic.error_code, topic.num_partitions) for topic in answer.topics] == [
        ("b", ErrorCode.INVALID_REQUEST, -1),
        ("t", ErrorCode.NONE, 2),
    ]
    assert topics.calls == [f"{call} a"]


def test_a_refusal_is_named(one_api, metadata) -> None:
    topics = TopicsDouble(ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists"))
    api = one_api(create_topics.API, cluster_metadata=metadata, cluster_topics=topics, throttling=WITHOUT_QUOTAS)
    (topic,) = api.ask(ApiKey.CREATE_TOPICS, 7, topics=[new("a")], timeout=1000, validate_only=False).topics
    assert (topic.name, topic.error_code, topic.error_message) == ("a", ErrorCode.TOPIC_ALREADY_EXISTS, "it exists")
