"""`ottla groups --delete` and `--delete-offsets`: delete groups, or the offsets that they committed.

Whether that may be is the coordinator's decision; here it is asked and its answers are said, sorted by name.
"""

from typing import Final

from ottla.cli.groups.failures import message, named
from ottla.cli.groups.options import GroupsOptions
from ottla.cli.groups.reset_arithmetic import parse_topic
from ottla.cli.groups.tables import Column, table
from ottla.cli.groups.transcript import Transcript
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.core.errors import ErrorCode
from ottla.core.java_text import java_order
from ottla.core.model import TopicPartition

WHOLE_TOPIC: Final = -1
OF_THE_GROUP: Final = frozenset(
    {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NON_EMPTY_GROUP}
)
OF_PARTITIONS: Final = frozenset(
    {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)


def delete_groups(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Delete the groups and say which are gone."""
    names = [group.group_id for group in admin.list_groups()] if options.has("all-groups") else list(options.groups)
    results = dict(sorted(admin.delete_groups(names).items(), key=lambda item: java_order(item[0])))
    failed = {name: failure for name, failure in results.items() if failure is not None}
    deleted = ", ".join(f"'{name}'" for name in results if name not in failed)
    transcript.add(groups=[{"group": name, "deleted": failure is None, "error": _text(failure)} for name, failure in results.items()])
    if not failed:
        transcript.say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    transcript.error("Deletion of some consumer groups failed:")
    transcript.say(*(f"* Group '{name}' could not be deleted due to: {named(failure)}" for name, failure in failed.items()))
    if deleted:
        transcript.say("", f"These consumer groups were deleted successfully: {deleted}")


def delete_offsets(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Delete what one group committed for topics or partitions, and say how it went for each."""
    group = options.one("group") or ""
    topics = options.all("topic")
    partitions = [partition for argument in topics if ":" in argument for partition in parse_topic(argument)]
    results: dict[TopicPartition, Failure | None] = {}
    for topic, answer in admin.describe_topics(argument for argument in topics if ":" not in argument).items():
        if isinstance(answer, Failure):
            results[TopicPartition(topic, WHOLE_TOPIC)] = answer
        else:
            partitions += [TopicPartition(topic, number) for number in answer.leaders]
    partitions = list(dict.fromkeys(partitions))
    answers = admin.delete_offsets(group, partitions)
    failures = [answers] if isinstance(answers, Failure) else [failure for failure in answers.values() if failure is not None]
    results |= {partition: answers if isinstance(answers, Failure) else answers.get(partition) for partition in partitions}
    _say_summary(group, failures[0] if failures else None, transcript)
    _say_results(group, results, transcript)


def _say_summary(group: str, failure: Failure | None, transcript: Transcript) -> None:
    if failure is None:
        transcript.say(f"Request succeeded for deleting offsets from group {group}.")
    elif failure.code in OF_THE_GROUP:
        transcript.error(message(Failure(failure.code)))
    elif failure.code in OF_PARTITIONS:
        transcript.error("Encountered some partition-level error, see the follow-up details.")
    else:
        transcript.error(f"Encountered some unknown error: {failure.code.name}")


def _say_results(group: str, results: dict[TopicPartition, Failure | None], transcript: Transcript) -> None:
    ordered = sorted(results.items(), key=lambda item: java_order(f"{item[0].topic}{item[0].partition}"))
    rows = [
        [
            partition.topic,
            None if partition.partition == WHOLE_TOPIC else partition.partition,
            "Successful" if failure is None else f"Error: {named(failure)}",
        ]
        for partition, failure in ordered
    ]
    transcript.say("", *table([Column("TOPIC", 15, True), Column("PARTITION", 10), Column("STATUS", 15)], rows))
    transcript.add(
        group=group,
        partitions=[
            {"topic": topic, "partition": None if number == WHOLE_TOPIC else number, "deleted": failure is None, "error": _text(failure)}
            for (topic, number), failure in ordered
        ],
    )


def _text(failure: Failure | None) -> str | None:
    return None if failure is None else f"{failure.code.name}: {message(failure)}"
