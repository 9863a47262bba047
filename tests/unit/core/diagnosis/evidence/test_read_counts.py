"""Tests of the figures about what was read."""

from ottla.core.diagnosis.evidence.read_counts import RECORD_TYPE_NAMES, ReadCounts
from ottla.core.groups.log.record_schemas import RECORD_TYPES


def test_every_type_that_has_a_schema_has_a_name() -> None:
    for number, record_type in RECORD_TYPES.items():
        name = RECORD_TYPE_NAMES[number]
        assert record_type.name.removeprefix("Legacy").startswith(name)


def test_types_without_a_name_are_unknown() -> None:
    counts = ReadCounts()
    for number in (1, 0, 18, 200):
        counts.count_type(number)
    assert counts.to_dict()["record_types"] == {"OffsetCommit": 2, "unknown": 2}
