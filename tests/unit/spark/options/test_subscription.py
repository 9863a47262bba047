"""The subscription of a query from its options."""

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.options.subscription import Assign, Subscribe, SubscribePattern, parse_subscription
from ottla.spark.options.values import OptionError


def test_three_ways_to_say_it():
    assert parse_subscription({"subscribe": " b, a ,b,"}) == Subscribe(("b", "a"))
    assigned = parse_subscription({"assign": '{"b":[1,0],"a":[2]}'})
    assert assigned == Assign((TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1)))
    assert isinstance(assigned, Assign)
    assert assigned.topics == ("a", "b")
    pattern = parse_subscription({"subscribepattern": " ^a|b$ "})
    assert pattern == SubscribePattern("^a|b$")
    assert isinstance(pattern, SubscribePattern)
    assert pattern.matching(["b", "bc", "cb", "ac"]) == ("ac", "b", "cb")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ({"assign": "{"}, "Expected e.g."),
        ({"subscribepattern": " "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '"),
        ({"subscribepattern": "[a&&b]"}, r'The option "subscribePattern" cannot be \'\[a&&b\]\': && inside of \[ is not supported'),
    ],
)
def test_what_cannot_be(options: dict[str, str], message: str):
    with pytest.raises(OptionError, match=message):
        parse_subscription(options)
