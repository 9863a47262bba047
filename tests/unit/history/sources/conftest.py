"""What the tests of evidence share: the evidence of records of the offsets topic."""

from collections.abc import Callable, Iterable

import pytest

from ottla.groups.log.records import EvidenceDecoder
from ottla.history.sources.evidence import Evidence
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from tests.support.kit.offsets_topic_records import Pair, records_at

Read = Callable[..., list[Evidence]]


@pytest.fixture
def read() -> Read:
    """`read((at_ms, record), ..., counts=None, groups=None)`: all evidence of the records, in their order."""

    def of_records(*timed: tuple[int, Pair], counts: ReadCounts | None = None, groups: Iterable[str] | None = None) -> list[Evidence]:
        wanted = None if groups is None else frozenset(groups)
        reader = GroupRecords(0, decode=EvidenceDecoder().decode, counts=counts or ReadCounts(), groups=wanted)
        return [*reader.read(records_at(*timed)), *reader.finish()]

    return of_records
