"""The subscription of a query from its options."""

import pytest

from ottla.protocol.model import TopicPartition
from ottla.spark.options.subscription import Assign, Subscribe, SubscribePattern, compile_pattern, parse_subscription
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


NAMES = ["orders", "orders.eu", "Orders-2", "payments_7", "a.b", "x"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders", "orders.eu"]),
        ("^orders$", ["orders"]),
        ("orders|payments.*", ["orders", "orders.eu", "payments_7"]),
        ("(?i)orders", ["orders", "orders.eu", "Orders-2"]),
        ("(?i:O)rders-", ["Orders-2"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"^\Qa.b", ["a.b"]),
        (r"^\p{Upper}", ["Orders-2"]),
        (r"^[\p{Alpha}_]+\z", ["orders", "x"]),
        (r"^\P{Lower}", ["Orders-2"]),
        (r"(?<c>s)\.|_(?<d>\d)", ["orders.eu", "payments_7"]),
        (r"(?<l>r)de\k<l>", ["orders", "orders.eu", "Orders-2"]),
        (r"^\w++$", ["orders", "payments_7", "x"]),
        (r"^(?>o|or)d", []),
        (r"^.{1,3}$", ["a.b", "x"]),
        (r"[.\-]", ["orders.eu", "Orders-2", "a.b"]),
        (r"\x61\x{2e}\u0062", ["a.b"]),
        (r"^(?!o)(?=.*s$|x)(?<!a)", ["x"]),
        (r"\[", []),
    ],
)
def test_the_names_that_java_finds(pattern: str, found: list[str]):
    assert [name for name in NAMES if compile_pattern(pattern).search(name)] == found


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("[a-z&&[^b]]", "&& inside of ["),
        ("[a[b]]", "[ inside of ["),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"a\Rb", r"\R"),
        (r"\G", r"\G"),
        (r"\0", r"\0"),
        ("a(?i)b", "(?i) at the beginning"),
        ("(?P<n>a)", "(?P<"),
        ("(?x)a b", "(?x)"),
        ("a{,3}", "no {n}"),
        ("a{", "no {n}"),
        ("(?<=a+)b", "look-behind"),
        ("[a", "a [ without its ]"),
        ("(a", "missing )"),
        ("a\\", "nothing behind it"),
        (r"(?<n", "without its >"),
        (r"\x{zz}", "invalid literal"),
        (r"\x{110000}", "chr()"),
    ],
)
def test_invalid_properties_are_refused_by_name(pattern: str, named: str):
    with pytest.raises(ValueError) as raised:
        compile_pattern(pattern)
    assert named in str(raised.value)
