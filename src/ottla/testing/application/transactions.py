"""Open transactions of the application under test: see them, wait until there are none, end one as if it had timed out.

They are read in the brokers' loop, as their coordinators have them now. Brokers know producers by their transactional ids alone: which
client sent a request is not kept.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.broker.clock import now_ms
from ottla.broker.composition import Components
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import HIDE_FAILURES
from ottla.text import did_you_mean
from ottla.transactions.commands import InitProducerId
from ottla.transactions.records import partitions_of
from ottla.transactions.states import ENDED, State

__tracebackhide__ = HIDE_FAILURES


class OpenTransaction(NamedTuple):
    """A transaction that has not ended. `state`: Ongoing; or PrepareCommit, PrepareAbort: decided, but not all markers are written."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    """When its first partition was added, in milliseconds since 1970."""
    timeout_ms: int
    """The producer's transaction.timeout.ms: for longer it is not open."""
    partitions: tuple[TopicPartition, ...]
    """Those of __consumer_offsets among them hold the group's offsets that it commits."""

    def in_words(self) -> str:
        """The transaction and its age."""
        where = ", ".join(f"{topic}-{number}" for topic, number in self.partitions)
        return (
            f"{self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch}) is {self.state} for"
            f" {(now_ms() - self.start_ms) / 1_000:.1f} s in {where}, with transaction.timeout.ms={self.timeout_ms}"
        )


def open_transactions(components: Components) -> dict[str, OpenTransaction] | None:
    """Those that are open now, by transactional id; None while a coordinator loads."""
    found = []
    for _, coordinator in components.transaction_coordinators.all():
        if coordinator.status is not CoordinatorStatus.ACTIVE:
            return None
        for each in coordinator.state.transactions.values():
            value = each.value
            if each.state not in ENDED:
                found.append(
                    OpenTransaction(
                        transactional_id=each.transactional_id,
                        state=each.state.shown,
                        producer_id=value.producer_id,
                        producer_epoch=value.producer_epoch,
                        start_ms=value.transaction_start_timestamp_ms,
                        timeout_ms=value.transaction_timeout_ms,
                        partitions=tuple(partitions_of(value)),
                    )
                )
    return {each.transactional_id: each for each in sorted(found)}


def in_words(transactions: Iterable[OpenTransaction]) -> str:
    """All of them, a sentence each."""
    return ". ".join(each.in_words() for each in transactions) or "None is open"


def begin_abort(components: Components, transactional_id: str) -> None:
    """Abort the open transaction of an id and fence its producer, as its timeout does; the markers follow.

    Raises AssertionError where the id has no open transaction. One that is ending already is left to end.
    """
    found: Mapping[str, OpenTransaction] = open_transactions(components) or {}
    if transactional_id not in found:
        known = did_you_mean(transactional_id, found)
        raise AssertionError(f"{transactional_id} has no open transaction{known}. {in_words(found.values())}")
    transaction = found[transactional_id]
    if transaction.state == State.ONGOING.shown:
        # What a new producer with the id sends: the coordinator aborts and fences as after a timeout, and answers that it is under way.
        components.transactional_ids.ask(
            transactional_id,
            lambda reply_to: InitProducerId(reply_to=reply_to, transactional_id=transactional_id, timeout_ms=transaction.timeout_ms),
        )
