"""The counts of a log add up and read as a sentence."""

from ottla.core.diagnosis.evidence.log_counts import LogCounts, Skip


def test_a_log_of_another_program_is_named_so() -> None:
    assert str(LogCounts(lines=12_000)) == "not a Kafka log: 0 of 12,000 lines were understood"


def test_a_kafka_log_without_groups_is_named_so() -> None:
    assert str(LogCounts(lines=5, mentions_kafka=True)) == "no lines about groups: 0 of 5 lines were understood"


def test_a_log_whose_lines_were_skipped_is_not_said_to_be_of_another_program() -> None:
    assert str(LogCounts(lines=9, skipped={Skip.NO_TIME: 9})) == "0 of 9 lines were understood; skipped: 9 no time, or no date"


def test_reasons_are_listed() -> None:
    counts = LogCounts(lines=9, understood=5, skipped={Skip.NO_TIME: 2, Skip.TOO_LONG: 1})
    assert str(counts) == "5 of 9 lines were understood; skipped: 2 no time, or no date, 1 too long"


def test_counts_of_two_logs_add_up() -> None:
    one = LogCounts(lines=5, understood=2, evidence=1, skipped={Skip.BINARY: 1})
    other = LogCounts(lines=7, understood=1, skipped={Skip.BINARY: 2, Skip.TOO_LONG: 1}, mentions_kafka=True)
    assert one + other == LogCounts(lines=12, understood=3, evidence=1, skipped={Skip.TOO_LONG: 1, Skip.BINARY: 3}, mentions_kafka=True)
