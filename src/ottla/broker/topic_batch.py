"""Many new topics with few appends: decided and encoded in pieces, then appended and replayed.

Other requests are served between the pieces, so that a name may be taken when the records are there: it is checked again before the append.
"""

from collections.abc import Generator
from typing import Final, NamedTuple

from ottla.broker.catalogue_log import CatalogueLog
from ottla.broker.deletions import Deletions
from ottla.core.catalogue.catalogue import Catalogue, NewTopic, Topic, metric_name
from ottla.core.catalogue.records import CatalogueRecord, encode
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.errors import ErrorCode, StorageError

RECORDS_PER_APPEND: Final = 5_000
"""An append of so many records takes some 20 ms, and a sync."""
PIECE: Final = 128
"""So many records are encoded before other requests continue: about 0.5 ms."""


class _Decided(NamedTuple):
    """A topic that may be created: where its result goes, its records and their bytes."""

    place: int
    name: str
    records: list[CatalogueRecord]
    values: list[bytes]


class TopicBatch:
    """The topics of one request; `results` has one item for each, final after `commit`."""

    def __init__(self, catalogue: Catalogue, catalogue_log: CatalogueLog, deletions: Deletions) -> None:
        self.results: list[Topic | Refused] = []
        self._catalogue = catalogue
        self._log = catalogue_log
        self._deletions = deletions
        self._decided: list[_Decided] = []
        self._records = 0

    def add(self, new: NewTopic, topic_id: bytes) -> Generator[None, None, None]:
        """Decides about a topic, and commits when there is enough."""
        records = self._catalogue.create_topic(new, topic_id)
        if isinstance(records, Refused):
            self.results.append(records)
            yield
            return
        values = []
        for at in range(0, len(records), PIECE):
            values += [encode(record) for record in records[at : at + PIECE]]
            yield
        self._decided.append(_Decided(len(self.results), new.name, records, values))
        self.results.append(_UNDECIDED)
        self._records += len(records)
        if self._records >= RECORDS_PER_APPEND:
            self.commit()
            yield

    def commit(self) -> None:
        """Creates the topics that were decided: all of them, or none where the log cannot be written."""
        decided, self._decided, self._records = self._decided, [], 0
        kept: dict[str, _Decided] = {}
        for each in decided:
            other = kept.get(metric_name(each.name))
            refused = self._catalogue.name_refusal(each.name)
            if refused is None and other is not None:
                message = f"Topic '{each.name}' collides with existing topic: {other.name}"
                refused = Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            if refused is None:
                kept[metric_name(each.name)] = each
            else:
                self.results[each.place] = refused
        try:
            for each in kept.values():
                self._deletions.write_for(each.name)
            records = [record for each in kept.values() for record in each.records]
            self._log.append_encoded(records, [value for each in kept.values() for value in each.values])
        except StorageError as error:
            for each in kept.values():
                self.results[each.place] = Refused(error.code, str(error))
        else:
            for each in kept.values():
                self.results[each.place] = self._catalogue.topics[each.name]


_UNDECIDED: Final = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "not committed")
