"""The output of `ottla groups`, and tables as Kafka's tools lay them out."""

import json

from ottla.cli.groups.output import Column, Transcript, table


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


def test_streams_and_document() -> None:
    transcript = Transcript()
    transcript.say("one", "two")
    transcript.warn("careful")
    transcript.add(groups=[])
    assert (transcript.out, transcript.err) == (["one", "two"], ["careful"])
    assert json.loads(transcript.json_text()) == {"groups": []}


def test_names_cannot_forge_lines_or_control_the_terminal() -> None:
    transcript = Transcript()
    transcript.say("group g\nError: all is lost")
    transcript.warn("group \x1b[2J has no members")
    transcript.export("a\nb")
    assert transcript.out == ["group g\\nError: all is lost", "a\nb"]
    assert transcript.err == ["group \\x1b[2J has no members"]


def test_an_error_is_in_both() -> None:
    transcript = Transcript()
    transcript.error("it failed")
    assert transcript.out == ["", "Error: it failed"]
    assert json.loads(transcript.json_text()) == {"errors": ["it failed"]}
