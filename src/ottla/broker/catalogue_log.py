"""The catalogue's shell: appends its records to the log `__cluster_metadata-0` and replays them, at once and at every start."""

from collections.abc import Callable, Sequence

from ottla.core.catalogue.catalogue import Catalogue
from ottla.core.catalogue.records import CatalogueRecord, decode, encode
from ottla.core.errors import PeerError, StorageError
from ottla.core.model import Record
from ottla.storage.files import Files
from ottla.storage.partition_log import LogSettings, PartitionLog

DIRECTORY = "__cluster_metadata-0"


class CatalogueLog:
    """Append, then replay: nothing becomes true in the catalogue that is not in its log."""

    def __init__(self, files: Files, catalogue: Catalogue, clock: Callable[[], int]) -> None:
        self.catalogue = catalogue
        self._clock = clock
        self._log = PartitionLog(files, DIRECTORY, LogSettings())

    def open(self) -> None:
        """Replays the whole log. Raises StorageError when a record cannot be read: a cluster must not forget topics silently."""
        self._log.open(self._clock())
        for record in self._log.scan(self._log.log_start_offset):
            try:
                decoded = None if record.value is None else decode(record.value)
                if decoded is not None:
                    self.catalogue.replay(decoded)
            except (PeerError, KeyError) as error:
                raise StorageError(f"{DIRECTORY}: the record at offset {record.offset} cannot be replayed: {error}") from error

    def append(self, records: Sequence[CatalogueRecord]) -> None:
        """Keeps the records, on disk before it returns, and applies them. Raises StorageError, with nothing applied."""
        if not records:
            return
        now = self._clock()
        self._log.append_records([Record(0, now, None, encode(record)) for record in records], now_ms=now)
        self._log.flush()
        for record in records:
            self.catalogue.replay(record)

    def close(self) -> None:
        """Closes the log."""
        self._log.close(clean=True)
