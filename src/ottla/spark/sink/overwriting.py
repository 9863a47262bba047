"""Save mode Overwrite: accepted where there is nothing to replace, since Kafka cannot replace records.

Spark refuses its default mode (errorifexists) for Python data sources, and proposes Append or Overwrite. It deletes no record.
"""

from collections.abc import Callable

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.options.values import OptionError
from ottla.spark.sink.first_contact import FirstContact


def check_nothing_is_replaced(contact: FirstContact, *, connect: Callable[..., AdminClient] = AdminClient) -> None:
    """Raise OptionError if the topic has records, or no option names it; raises ClientError."""
    topic = contact.topic
    if topic is None:
        raise OptionError('Save mode Overwrite needs the option "topic". To add to the topics of the column, use mode("append").')
    with connect(contact.client, bootstrap_timeout_ms=contact.timeout_ms) as admin:
        described = admin.describe_topics([topic])[topic]
        if isinstance(described, Failure):
            if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            raise OptionError(f"Save mode Overwrite: cannot look at topic {topic}: {described.message or described.code.name}.")
        partitions = [TopicPartition(topic, number) for number in described.leaders]
        starts, ends = admin.list_offsets(partitions, EARLIEST), admin.list_offsets(partitions, LATEST)
    if any(ends[partition] > starts[partition] for partition in partitions):
        raise OptionError(
            f"Save mode Overwrite not allowed for topic {topic}, which has records: Kafka cannot replace them."
            ' Add to them with mode("append"), or delete the topic first.'
        )
