"""Names of topics: Kafka's rules, and the topics that requests may not create."""

import pytest

from ottla.metadata.topics import (
    CONSUMER_OFFSETS,
    RESERVED_TOPICS,
    TOPIC_NAME_CHARS_MAX,
    Topic,
    may_be_auto_created,
    metric_name,
    topic_name_problem,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than ASCII alphanumerics"),
        ("ö", "contains one or more characters other than ASCII alphanumerics"),
        ("a\n", "contains one or more characters other than ASCII alphanumerics"),
    ],
)
def test_names_that_kafka_refuses(name: str, words: str) -> None:
    assert words in (topic_name_problem(name) or "")


@pytest.mark.parametrize("name", ["a", "a.b_c-d", "...", "x" * TOPIC_NAME_CHARS_MAX])
def test_other_names_are_valid(name: str) -> None:
    assert topic_name_problem(name) is None


def test_metric_names_make_no_difference_between_dot_and_underscore() -> None:
    assert metric_name("a.b_c") == metric_name("a_b.c")


@pytest.mark.parametrize(
    ("name", "may"), [("t", True), (CONSUMER_OFFSETS, True), ("__transaction_state", False), *((name, False) for name in RESERVED_TOPICS)]
)
def test_topics_that_metadata_requests_may_create(name: str, may: bool) -> None:
    assert may_be_auto_created(name) is may


def test_internal_topics() -> None:
    assert Topic(CONSUMER_OFFSETS, bytes(16)).is_internal
    assert not Topic("t", bytes(16)).is_internal
