"""Records of the catalogue's log in the order in which they count: those of a transaction only when it has ended (KIP-868).

Apache Kafka's controller writes large changes as transactions of several batches; one that was aborted, or never ended, changes nothing.
"""

from ottla.core.catalogue.catalogue import Catalogue
from ottla.core.catalogue.records import AbortTransaction, BeginTransaction, CatalogueRecord, EndTransaction, TransactionMark


class Replay:
    """Feeds a catalogue with what a log holds, one record after another."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._pending: list[CatalogueRecord] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a transaction has begun and not ended: before anything else is appended, it must be aborted."""
        return self._pending is not None

    def feed(self, record: CatalogueRecord | TransactionMark) -> None:
        """The next record. Raises LookupError when it speaks of a topic or partition that there is not."""
        match record:
            case BeginTransaction():
                self._pending = []
            case EndTransaction():
                pending, self._pending = self._pending or [], None
                for one in pending:
                    self._catalogue.replay(one)
            case AbortTransaction():
                self._pending = None
            case _:
                if self._pending is None:
                    self._catalogue.replay(record)
                else:
                    self._pending.append(record)
