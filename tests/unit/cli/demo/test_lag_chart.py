"""The picture of lag: what counts within a letter, what is blank, where rebalances stand, and that it fits."""

from ottla.cli.demo.lag_chart import BLOCKS, HEIGHT, LagRow, draw, spans, summary

ROWS = [
    LagRow(0, 1_000, None),
    LagRow(0, 1_200, 10),
    LagRow(1, 1_250, 4),
    LagRow(0, 1_210, 80),  # a peak between two
    LagRow(0, 1_220, 10),
    LagRow(1, 1_900, 0),
    LagRow(0, 2_500, 500),  # after the end
]


def test_the_greatest_counts_and_what_is_known_lasts():
    assert spans(ROWS, 1_000, 2_000, 5) == {0: [None, 80, 10, 10, 10], 1: [None, 4, 4, 4, 4]}
    assert spans([], 1_000, 2_000, 5) == {}
    assert spans([LagRow(2, 500, 7)], 1_000, 1_000, 3) == {2: [7, 7, 7]}


def test_the_picture_has_the_group_the_rebalances_and_every_partition():
    lines = draw(ROWS, [(1, 1_000), (2, 1_010), (3, 1_500), (9, 5_000)], starts_ms=1_000, ends_ms=2_000, width=76)
    assert max(map(len, lines)) <= 76
    group, marks, partitions = lines[:HEIGHT], lines[HEIGHT:-2], lines[-2:]
    assert group[0].startswith("      80 ")
    assert [line.strip() for line in marks] == ["▲1" + " " * 28 + "▲3", "▲2"]
    assert partitions[0].startswith("       0 " + " " * 12 + BLOCKS[-1])
    assert partitions[0].split()[-1].endswith("80")
    assert partitions[1].split()[-1] == "4"


def test_no_lag_at_all_is_a_picture_too():
    lines = draw([], [(1, 1_000)], starts_ms=1_000, ends_ms=2_000, width=60)
    assert lines[HEIGHT].strip() == "▲1"
    assert summary([], starts_ms=0, ends_ms=9) == {"greatest_lag": 0, "its_partition": -1, "at_ms": 0}


def test_the_worst_within_the_time():
    assert summary(ROWS, starts_ms=1_000, ends_ms=2_000) == {"greatest_lag": 80, "its_partition": 0, "at_ms": 1_210}
