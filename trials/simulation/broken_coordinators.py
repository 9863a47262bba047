"""Coordinators of transactions that are broken on purpose, in this process: what an oracle must find."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from ottla.broker.coordination import transactions
from ottla.broker.coordination.producer_transactions import ProducerTransaction
from ottla.broker.coordination.transactions import TransactionMarkers
from ottla.coordinator.effects import Producer
from ottla.groups.coordinator import GroupCoordinator
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import ProducerStates
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.control import ControlType, EndMarker
from ottla.transactions import coordinator
from ottla.transactions.commands import InitProducerId, MarkersDue, ProducerResult
from ottla.transactions.coordinator import TransactionCoordinator

EVERY: Final = 7
"""Of so many transactions, one is treated wrongly where it need not be all."""


def _no_fencing() -> Any:
    """A second producer of a transactional id gets the epoch of the first, whose transaction goes on."""
    original = TransactionCoordinator._init_producer_id

    def init(self: TransactionCoordinator, context: Any, command: InitProducerId) -> None:
        found = self.state.transactions.get(command.transactional_id)
        if found is None:
            original(self, context, command)
            return
        known = {"producer_id": found.value.producer_id, "producer_epoch": found.value.producer_epoch}
        context.reply(command.reply_to, ProducerResult(error=ErrorCode.NONE, **known))

    return patch.dict(coordinator._HANDLERS, {InitProducerId: init})


def _lost_marker() -> Any:
    """The marker of one partition is lost."""
    original, count = TransactionMarkers.take, [0]

    def take(self: TransactionMarkers, events: tuple[MarkersDue, ...]) -> None:
        count[0] += 1
        lossy = count[0] % EVERY == 0
        original(self, tuple(replace(due, partitions=due.partitions[:-1]) if lossy and len(due.partitions) > 1 else due for due in events))

    return patch.object(TransactionMarkers, "take", take)


def _early_offsets() -> Any:
    """Offsets count before their transaction is committed, whether it is or not."""
    original = GroupCoordinator.replay_transactional

    def replay(self: GroupCoordinator, records: Sequence[Any], producer: Producer) -> None:
        original(self, records, producer)
        for record in self.state.pending_offsets.end(producer.id):
            self.state.replayed.apply(record)

    return patch.object(GroupCoordinator, "replay_transactional", replay)


def _unstable_reads() -> Any:
    """Consumers with read_committed get what belongs to open transactions."""
    return patch.object(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _commit_that_aborts() -> Any:
    """Some transactions are aborted after the answer that they are committed."""
    count = [0]

    def end_marker(due: MarkersDue) -> EndMarker:
        count[0] += 1
        return EndMarker(ControlType.COMMIT if due.commits and count[0] % EVERY else ControlType.ABORT, due.coordinator_epoch)

    return patch.object(transactions, "end_marker", end_marker)


def _late_records() -> Any:
    """Records are taken for partitions that are not in a transaction, also of fenced producers (no KIP-890, no epochs)."""
    check = ProducerStates.check

    def checked(self: ProducerStates, header: Any) -> Any:
        found = check(self, header)
        return None if getattr(found, "error", None) is ErrorCode.INVALID_PRODUCER_EPOCH else found

    @contextmanager
    def both() -> Iterator[None]:
        with patch.object(ProducerTransaction, "refusal", lambda *_: None), patch.object(ProducerStates, "check", checked):
            yield

    return both()


BROKEN: Final[dict[str, Callable[[], Any]]] = {
    "no-fencing": _no_fencing,
    "lost-marker": _lost_marker,
    "early-offsets": _early_offsets,
    "unstable-reads": _unstable_reads,
    "commit-that-aborts": _commit_that_aborts,
    "late-records": _late_records,
}
"""Each name, and what breaks a coordinator while its context lasts."""
