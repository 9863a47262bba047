"""Rows in columns."""

from ottla.cli.groups.tables import Column, table


def test_columns_grow_where_they_may() -> None:
    columns = [Column("GROUP", 7, True), Column("N", 3), Column("LAST", 0)]
    assert table(columns, [["a-long-name", 12345, "x"], ["b", None, ""]]) == [
        "GROUP       N   LAST",
        "a-long-name 12345 x",
        "b           -   ",
    ]


def test_a_title_alone() -> None:
    assert table([Column("TOPIC", 8, True), Column("STATUS", 8)], []) == ["TOPIC    STATUS  "]


def test_a_name_that_holds_a_newline_stays_on_its_line() -> None:
    assert table([Column("GROUP", 5, True), Column("N", 1)], [["g\nh\x1b[1m", 1]]) == ["GROUP       N", "g\\nh\\x1b[1m 1"]
