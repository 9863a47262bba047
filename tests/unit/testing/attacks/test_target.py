"""A target prepares topics, and waits for an answer or a closed connection."""

from ottla.broker import Broker
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.attacks.target import Target


def test_topics_and_names_are_new_each_time() -> None:
    with Broker() as broker:
        target = Target(broker.bootstrap_servers)
        assert target.topic("t", 3) != target.topic("t", 3)


def test_counts_shrink_with_the_scale() -> None:
    assert Target("", scale=1.0).count(1_000) == 1_000
    assert Target("", scale=0.1).count(1_000) == 100
    assert Target("", scale=0.0001).count(1_000) == 2


def test_an_answer_and_a_closed_connection_both_end_the_wait() -> None:
    with Broker() as broker:
        target = Target(broker.bootstrap_servers)
        good = target.frame(ApiKey.API_VERSIONS, 0)
        assert target.send([good, good], connections=3) == len(good) * 6
        assert target.send([b"\xff\xff\xff\xff"]) == 4
