"""Topics and patterns of a subscription."""

import pytest

from ottla.client.consumer.kafka_errors import KafkaException
from ottla.client.consumer.patterns import split_topics


def test_names_and_patterns() -> None:
    names, patterns = split_topics(["a", "^b.*"])
    assert names == ["a"]
    assert [pattern.pattern for pattern in patterns] == ["^b.*"]


@pytest.mark.parametrize("topics", ["a", [1]])
def test_something_else_is_refused(topics: object) -> None:
    with pytest.raises(TypeError, match="expected list of topic unicode strings"):
        split_topics(topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("topics", [[], ["^(a"]])
def test_no_topic_and_a_malformed_pattern_are_refused(topics: list[str]) -> None:
    with pytest.raises(KafkaException, match="Failed to set subscription"):
        split_topics(topics)
