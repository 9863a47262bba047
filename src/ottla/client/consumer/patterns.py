"""Topics and patterns of a subscription, as confluent-kafka takes them: a name that begins with "^" is a regular expression."""

import re
from collections.abc import Sequence

from ottla.client.consumer.kafka_errors import KafkaError, KafkaException


def split_topics(topics: Sequence[str]) -> tuple[list[str], list[re.Pattern[str]]]:
    """Names and patterns. Raises TypeError for something else than a list of texts, KafkaException for a malformed pattern."""
    if isinstance(topics, str) or not all(isinstance(topic, str) for topic in topics):
        raise TypeError("expected list of topic unicode strings")
    if not topics:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "Failed to set subscription: there is no topic; unsubscribe() ends one"))
    try:
        return [topic for topic in topics if not topic.startswith("^")], [re.compile(topic) for topic in topics if topic.startswith("^")]
    except re.error as error:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to set subscription: {error}")) from error
