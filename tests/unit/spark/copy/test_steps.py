"""The tables of a copy; the steps themselves run in tests/spark/test_copy_topic.py."""

from ottla.spark.copy.steps import KAFKA_WITH_HEADERS, OFFSET_MAP, PARTITIONERS, ROUTED, TARGET_COMMITS, TIMED


def test_each_step_adds_its_column_at_the_end() -> None:
    assert TIMED.fieldNames() == [*KAFKA_WITH_HEADERS.fieldNames(), "latest"]
    assert ROUTED.fieldNames() == [*TIMED.fieldNames(), "target_partition"]


def test_the_map_of_offsets_and_the_commits_made_from_it_speak_of_the_same_columns() -> None:
    assert set(TARGET_COMMITS.fieldNames()) - {"group"} <= set(OFFSET_MAP.fieldNames())


def test_both_partitioners_are_supported() -> None:
    assert set(PARTITIONERS) == {"murmur2", "crc32"}
