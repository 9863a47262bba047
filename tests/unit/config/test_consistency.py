"""Settings that cannot be together."""

import pytest

from ottla.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigError,
    consistency_problem,
    super_users,
    topic_consistency_problem,
)


def test_the_defaults_can_be_together() -> None:
    assert consistency_problem(BrokerConfig().text) is None
    assert topic_consistency_problem(lambda name: TOPIC_SETTINGS[name].default) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms, or log.flush.scheduler.interval.ms"),
        ({"log.cleaner.threads": "200"}, "at least 1MB per cleaner thread"),
        ({"group.max.session.timeout.ms": "1"}, "group.min.session.timeout.ms (6000) > group.max.session.timeout.ms (1): no member"),
        ({"queued.max.request.bytes": "1"}, "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if max.connections.per.ip.overrides"),
        ({"connections.max.idle.ms": "0"}, "connections.max.idle.ms must be at least 1, or negative for never"),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "min.compaction.lag.ms (5) > max.compaction.",
        ),
    ],
)
def test_the_brokers(given: dict[str, str], words: str) -> None:
    problem = consistency_problem(lambda name: given[name] if name in given else BrokerConfig().text(name))
    assert problem is not None
    assert words in problem
    assert set(given) <= set(BROKER_SETTINGS)


@pytest.mark.parametrize(
    "given",
    [
        {"queued.max.request.bytes": "0"},  # as in Kafka: no bound of its own
        {"queued.max.request.bytes": "104857600"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"connections.max.idle.ms": "-1"},
        {"group.max.session.timeout.ms": "6000"},
        {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "5"},
    ],
)
def test_what_can_just_be_together(given: dict[str, str]) -> None:
    assert consistency_problem(lambda name: given[name] if name in given else BrokerConfig().text(name)) is None


def test_a_topics() -> None:
    given = {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}
    kafkas = "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"
    assert topic_consistency_problem(given.__getitem__) == kafkas


@pytest.mark.conformance("AuthorizerTest.testAclConfigWithWhitespace")
def test_the_settings_of_an_authorizer() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    given = {"authorizer.class.name": f" {name} ", "super.users": " User:a ; User:b,c; ", "allow.everyone.if.no.acl.found": " true "}
    assert BrokerConfig(given).flag("allow.everyone.if.no.acl.found")
    assert super_users(given["super.users"]) == ("User:a", "User:b,c")
    for wrong, words in (({"authorizer.class.name": "x.Y"}, "x.Y is Java and cannot be loaded"), ({"super.users": "a"}, "but got a")):
        with pytest.raises(ConfigError, match=words):
            BrokerConfig(given | wrong)
