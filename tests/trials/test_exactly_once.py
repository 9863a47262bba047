"""The oracle of the copies finds what it is there to find; the copiers and brokers are run by `python -m trials exactly-once`."""

from pathlib import Path

from trials.exactly_once.copies import (
    Outcomes,
    Output,
    read_journals,
    read_output,
    wrong_copies,
    wrong_early,
    wrong_offsets,
    wrong_transactions,
)

INPUT = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
COPIES = [read_output(0, 0, b"0 0 a x/1"), read_output(1, 0, b"0 1 b x/1"), read_output(0, 2, b"1 0 c y/1")]
NOTHING = Outcomes(set(), set(), [])


def test_copies_that_are_right() -> None:
    assert wrong_copies(INPUT, COPIES) == []
    assert wrong_transactions(COPIES, COPIES, Outcomes({"x/1"}, {"y/2"}, [])) == []
    assert wrong_early(COPIES[:2], COPIES) == []
    assert wrong_offsets([{0: 1}, {0: 2, 1: 1}], {0: 2, 1: 1}) == []


def test_inputs_that_are_lost_copied_twice_invented_or_out_of_order() -> None:
    assert wrong_copies(INPUT, COPIES[:2]) == ["input (1, 0) is there 0 times"]
    again = COPIES[1]._replace(offset=5)
    assert wrong_copies(INPUT, [*COPIES, again]) == ["input (0, 1) is there 2 times x/1 x/1"]
    assert len(wrong_copies(INPUT, [*COPIES[:2], COPIES[2]._replace(value="?")])) == 1
    back = [Output(0, 0, (0, 1), "b", "x/1"), Output(0, 1, (0, 0), "a", "x/2"), COPIES[2]]
    assert wrong_copies(INPUT, back) == [f"{back[1]} came after the copy of offset 1"]


def test_transactions_that_are_torn_lost_or_read_although_aborted() -> None:
    assert wrong_transactions(COPIES[1:], COPIES, NOTHING) == ["x/1 is torn: 1 of 2 records are read"]
    assert wrong_transactions(COPIES[2:], COPIES, Outcomes({"x/1"}, set(), [])) == ["x/1 was committed, and 2 of its records are missing"]
    assert wrong_transactions(COPIES, COPIES, Outcomes(set(), {"y/1"}, [])) == ["y/1 was aborted, and 1 of its records are read"]
    assert wrong_early(COPIES, COPIES[:2]) == [f"{COPIES[2]} was read, and is not committed"]


def test_offsets_that_go_back_or_stay_behind() -> None:
    assert wrong_offsets([{0: 2}, {0: 1}, {0: 2}], {0: 2}) == ["the offset of partition 0 went back from 2 to 1"]
    assert wrong_offsets([{0: 1}], {0: 2}) == ["partition 0 is committed to 1 of 2"]


def test_journals(tmp_path: Path) -> None:
    journal = tmp_path / "3-confluent" / "journal"
    journal.parent.mkdir()
    journal.write_text("begun 1\ncommitted 1\nbegun 2\n! KafkaError('x')\naborted 2\nbegun 3\ncommi")
    outcomes = read_journals([journal, tmp_path / "never"])
    assert outcomes == Outcomes({"3-confluent/1"}, {"3-confluent/2"}, ["3-confluent: KafkaError('x')"])
