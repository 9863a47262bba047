"""`ottla transactions`: what Kafka's kafka-transactions does, and sentences on who holds readers of committed records back.

Rows have Kafka's values under Kafka's titles. A table that would be wider than 80 columns has its titles in several lines. Where it still
is wider, a name is long: names are never cut, since the next command needs them. Transactions come sorted by name, where Kafka's tool
has no order.
"""

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.cli.clusters import CommandFailed, client_settings, message, of_error
from ottla.cli.text_tables import WIDTH
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import ActiveProducer, DescribedTransaction, Failure, PartitionTransaction
from ottla.client.errors import ClientError
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition
from ottla.text import java_order, printable

MINUTE_MS: Final = 60_000
SENTENCES_MAX: Final = 5
DESCRIBED_MAX: Final = 100
"""So many open transactions `list` looks at, to say which of them hold readers back."""
_GAP: Final = "  "


class _Output:
    """What one command prints: lines and sentences, or one JSON document."""

    def __init__(self, *, as_json: bool) -> None:
        self._is_json = as_json

    def table(self, name: str, titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print rows; in JSON they are objects with the titles in snake case."""
        if self._is_json:
            self._document = {name: [_object(titles, row) for row in rows]}
        else:
            print("\n".join(table_lines(titles, [[_text(value) for value in row] for row in rows])))

    def fields(self, titles: Sequence[str], row: Sequence[object]) -> None:
        """Print one row with a line for each title."""
        if self._is_json:
            self._document = _object(titles, row)
        else:
            width = max(map(len, titles))
            print("\n".join(line for title, value in zip(titles, row, strict=True) for line in _field_lines(title, value, width)))

    def say(self, holders: Iterable[PartitionTransaction], now_ms: int) -> None:
        """Say who holds readers back; the document is complete, and printed."""
        holding = sorted(holders, key=lambda each: (each.since_ms, each.partition))
        sentences = [each.in_words(now_ms) for each in holding]
        if self._is_json:
            self.end(readers_wait=sentences)
            return
        print("".join(f"{sentence}.\n" for sentence in sentences[:SENTENCES_MAX]), end="", file=sys.stderr)
        if len(sentences) > SENTENCES_MAX:
            print(f"And in {len(sentences) - SENTENCES_MAX} more partitions; --json has them all.", file=sys.stderr)

    def end(self, **more: Any) -> None:
        """Print the document, if JSON is asked for."""
        if self._is_json:
            print(json.dumps(getattr(self, "_document", {}) | more, indent=2))

    _document: Mapping[str, Any] = {}


def _object(titles: Sequence[str], row: Sequence[object]) -> dict[str, Any]:
    names = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", title).lower().replace("(min)", "_min") for title in titles]
    return {
        name: [f"{topic}-{number}" for topic, number in value] if isinstance(value, tuple) else value
        for name, value in zip(names, row, strict=True)
    }


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{topic}-{number}" for topic, number in value)
    return "None" if value is None else printable(str(value))


def _field_lines(title: str, value: object, width: int) -> list[str]:
    """A title and its value; partitions go on in the lines below."""
    if not isinstance(value, tuple) or not value:
        return [f"{title.ljust(width)}{_GAP}{_text(value)}".rstrip()]
    lines = [title.ljust(width) + _GAP]
    for at, partition in enumerate(value):
        part = printable(f"{partition.topic}-{partition.partition}") + ("," if at < len(value) - 1 else "")
        if len(lines[-1]) > width + len(_GAP) and len(lines[-1]) + len(part) > WIDTH:
            lines.append(" " * (width + len(_GAP)))
        lines[-1] += part
    return lines


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The titles, in one line where the table fits, else a word under the other, and a line for each row."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(titles)
    values = [max(map(len, column), default=0) for column in columns]
    heads, gap = [[title] for title in titles], _GAP
    if sum(max(len(title), width) for title, width in zip(titles, values, strict=True)) + len(gap) * (len(titles) - 1) > WIDTH:
        heads, gap = [_title_lines(title, width) for title, width in zip(titles, values, strict=True)], " "
    widths = [max(width, *map(len, head)) for width, head in zip(values, heads, strict=True)]
    height = max(map(len, heads))
    head_rows = [[head[at] if at < len(head) else "" for head in heads] for at in range(height)]
    return [gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [*head_rows, *rows]]


def _title_lines(title: str, width: int) -> list[str]:
    """A title's words in lines that are no wider than the column's values, if the words are not."""
    words = re.findall(r"[A-Z][a-z]*|\(min\)", title)
    width = max(width, *map(len, words))
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word
    return lines


def run(action: str, options: Mapping[str, Any]) -> int:
    """Do what one command asks for; the exit status is 1 for whatever fails, with a sentence on standard error."""
    output = _Output(as_json=options["as_json"])
    try:
        if not options["bootstrap_server"]:
            raise CommandFailed("argument --bootstrap-server is required")
        settings = client_settings(options["bootstrap_server"], options["command_config"], client_id="ottla-transactions")
        with AdminClient(settings, timeout_ms=None if options["command_config"] else TIMEOUT_MS) as admin:
            ACTIONS[action](admin, options, output)
    except CommandFailed as failed:
        problem = str(failed)
    except ValueError as error:
        problem = f"--bootstrap-server: {error}"
    except (ClientError, PeerError) as error:
        problem = f"{FAILED[action]}: {of_error(error)}"
    else:
        return 0
    print(printable(problem), file=sys.stderr)
    return 1


TIMEOUT_MS: Final = 30_000
FAILED: Final = {
    "list": "Failed to list transactions",
    "describe": "Failed to describe the transaction",
    "describe-producers": "Failed to describe producers",
    "abort": "Failed to abort transaction",
    "find-hanging": "Failed to find hanging transactions",
    "forceTerminateTransaction": "Failed to force terminate the transaction",
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _failed(what: str, failure: Failure) -> CommandFailed:
    return CommandFailed(f"{what}: {message(failure)}")


def _list(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    filter_ms = options["duration_filter"]
    found = admin.list_transactions(
        longer_than_ms=-1 if filter_ms is None else filter_ms, pattern=options["transactional_id_pattern"] or None
    )
    found.sort(key=lambda each: java_order(each.transactional_id))
    output.table("transactions", ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), found)
    open_ids = [each.transactional_id for each in found if each.state in OPEN_STATES]
    described = admin.describe_transactions(open_ids[:DESCRIBED_MAX]).values()
    partitions = {partition for each in described if not isinstance(each, Failure) for partition in each.partitions}
    held = admin.first_open_transactions(sorted(partitions)).values()
    output.say([each for each in held if each.transactional_id in open_ids], _now_ms())


OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
DESCRIPTION: Final = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs"),
    *("CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)


def _describe(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    name = options["transactional_id"]
    found = admin.describe_transactions([name])[name]
    if isinstance(found, Failure):
        raise _failed(f"Failed to describe transaction state of transactional-id `{name}`", found)
    now_ms = _now_ms()
    duration_ms = None if found.start_ms is None else now_ms - found.start_ms
    output.fields(
        DESCRIPTION,
        (
            *(found.coordinator.broker_id, name, found.producer_id, found.producer_epoch, found.state, found.timeout_ms),
            *(found.start_ms, duration_ms, tuple(sorted(found.partitions))),
        ),
    )
    held = admin.first_open_transactions(found.partitions).values()
    output.say([each for each in held if each.producer.producer_id == found.producer_id], now_ms)


def _describe_producers(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    partition, broker_id = TopicPartition(options["topic"], options["partition"]), options["broker_id"]
    found = admin.describe_producers([partition], broker_id=broker_id)[partition]
    if isinstance(found, Failure):
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise _failed(f"Failed to describe producers for partition {_text((partition,))} on {where}", found)
    titles = ("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset")
    rows = [
        (
            *(each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence, each.last_timestamp_ms),
            each.transaction_start_offset,
        )
        for each in found
    ]
    output.table("producers", titles, rows)
    output.say(admin.first_open_transactions([partition]).values(), _now_ms())


def _abort(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    partition = TopicPartition(options["topic"], options["partition"])
    where = _text((partition,))
    producer_id, producer_epoch = options["producer_id"], options["producer_epoch"]
    coordinator_epoch = options["coordinator_epoch"]
    if options["start_offset"] is not None:
        producer = _producer_at(admin, partition, options["start_offset"])
        producer_id, producer_epoch, coordinator_epoch = producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    elif producer_id is None:
        raise CommandFailed(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with"
            " --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    elif producer_epoch is None:
        raise CommandFailed("Missing required argument --producer-epoch")
    elif coordinator_epoch is None:
        raise CommandFailed("Missing required argument --coordinator-epoch")
    failure = admin.abort_transaction(
        partition, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch
    )
    if failure is not None:
        what = f"partition {where}, producer {producer_id}, epoch {producer_epoch}, coordinator epoch {max(coordinator_epoch, 0)}"
        raise _failed(f"Failed to abort transaction of {what}", failure)
    output.end(aborted=where)


def _producer_at(admin: AdminClient, partition: TopicPartition, start_offset: int) -> ActiveProducer:
    found = admin.describe_producers([partition])[partition]
    if isinstance(found, Failure):
        raise _failed(f"Failed to validate producer state for partition {_text((partition,))}", found)
    for producer in found:
        if producer.transaction_start_offset == start_offset:
            return producer
    raise CommandFailed(f"Could not find any open transactions starting at offset {start_offset} on partition {_text((partition,))}")


def _find_hanging(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    topic, partition, broker_id = options["topic"], options["partition"], options["broker_id"]
    if topic is None and broker_id is None:
        raise CommandFailed("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
    if partition is not None and topic is None:
        raise CommandFailed("The --partition argument requires --topic to be provided")
    asked = [TopicPartition(topic, partition)] if partition is not None else _partitions(admin, topic, broker_id)
    found = admin.describe_producers(asked, broker_id=broker_id)
    for name, answer in found.items():
        if isinstance(answer, Failure):
            raise _failed(f"Failed to describe producers for partition {_text((name,))}", answer)
    now_ms = _now_ms()
    too_old_ms = now_ms - options["max_transaction_timeout"] * MINUTE_MS
    candidates = [
        (name, producer, producer.transaction_start_offset)
        for name, producers in sorted(found.items())
        for producer in (() if isinstance(producers, Failure) else producers)
        if producer.transaction_start_offset is not None and producer.last_timestamp_ms < too_old_ms
    ]
    known: Mapping[int, DescribedTransaction] = admin.describe_producer_ids({producer.producer_id for _, producer, _ in candidates})
    opened = [PartitionTransaction(name, start, producer, known.get(producer.producer_id)) for name, producer, start in candidates]
    hanging = [each for each in opened if each.is_hanging]
    titles = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp", "Duration(min)")
    rows = [
        (
            *each.partition,
            *(each.producer.producer_id, each.producer.producer_epoch, each.producer.coordinator_epoch, each.start_offset),
            *(each.producer.last_timestamp_ms, (now_ms - each.producer.last_timestamp_ms) // MINUTE_MS),
        )
        for each in hanging
    ]
    output.table("hanging", titles, rows)
    output.say(hanging, now_ms)


def _partitions(admin: AdminClient, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
    """The partitions of a topic, or of all topics; of these those that have a replica on a broker."""
    described = admin.describe_cluster(None if topic is None else [topic]).topics
    found = []
    for name, partitions in described.items():
        if isinstance(partitions, Failure):
            raise _failed(f"Failed to describe topic {name}", partitions)
        found += [TopicPartition(name, number) for number, each in partitions.items() if broker_id is None or broker_id in each.replicas]
    return found


def _force_terminate(admin: AdminClient, options: Mapping[str, Any], output: _Output) -> None:
    name = options["transactional_id"]
    failure = admin.force_terminate_transaction(name)
    if failure is not None:
        raise _failed(f"Failed to force terminate transactionalId `{name}`", failure)
    output.end(terminated=name)


ACTIONS: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
