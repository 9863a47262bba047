"""What was asked for on the command line, and what is printed."""

import json

import pytest

from ottla.cli.clusters import CommandFailed, UsageProblem
from ottla.cli.groups.options import (
    WARN_DRY_RUN,
    Column,
    GroupsOptions,
    Transcript,
    check,
    parse_datetime_ms,
    parse_duration_ms,
    parse_number,
    table,
)

AT_MS = 1_600_000_010_000
"""2020-09-13T12:26:50 UTC."""


def options(text: str) -> GroupsOptions:
    """Options from a text: `name` is a flag, `name=value` has a value."""
    flags, values = set(), {"bootstrap-server": ("h:1",)}
    for word in text.split():
        name, has_value, value = word.partition("=")
        if has_value:
            values[name] = (*values.get(name, ()), value)
        else:
            flags.add(name)
    return GroupsOptions(frozenset(flags), values)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("describe list", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("delete", "Option [delete] takes one of these options: [group], [all-groups]"),
        ("reset-offsets", "Option [reset-offsets] takes one of these options: [group], [all-groups]"),
        ("delete-offsets group=g", "Option [delete-offsets] takes the following options: [group], [topic]"),
        ("delete-offsets topic=t", "Option [delete-offsets] takes the following options: [group], [topic]"),
        ("delete group=g topic=t", "The consumer does not support topic-specific offset deletion from a consumer group."),
        ("describe group=g all-groups", 'Option "[group]" can\'t be used with option "[all-groups]"'),
        ("list group=g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("list topic=t", 'Option "[topic]" can\'t be used with option "[list]"'),
        ("describe group=g topic=t", 'Option "[topic]" can\'t be used with option "[describe]"'),
        ("list members", "Option(s) [members] are unavailable given other options on the command line"),
        ("delete group=g verbose", "Option(s) [verbose] are unavailable given other options on the command line"),
        ("describe group=g type=", "Option(s) [type] are unavailable given other options on the command line"),
        ("reset-offsets group=g to-latest to-offset=1", 'Option "[to-offset]" can\'t be used with option "[to-latest]"'),
        ("reset-offsets group=g dry-run execute", "Option [reset-offsets] only accepts one of [execute] and [dry-run]"),
    ],
)
def test_what_does_not_fit_together(text: str, sentence: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        list(check(options(text)))
    assert str(raised.value) == sentence


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeWithMultipleSubActions")
@pytest.mark.parametrize("text", ["members offsets", "offsets state=", "members offsets state="])
def test_one_description_at_a_time(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"\[describe\] takes at most one of these options: \[members\], \[offsets\], \[state\]"):
        list(check(options(f"describe group=g {text}")))


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeWithStateValue")
def test_describe_takes_no_states() -> None:
    with pytest.raises(UsageProblem, match=r"Option \[describe\] does not take a value for \[state\]"):
        list(check(options("describe group=g state=stable")))
    assert list(check(options("describe group=g state="))) == []


def test_a_server_is_needed_but_to_look_at_an_expression() -> None:
    with pytest.raises(UsageProblem, match="Missing required argument"):
        list(check(GroupsOptions(frozenset({"list"}), {})))
    assert list(check(GroupsOptions(frozenset(), {"validate-regex": ("a",)}))) == []


def test_a_reset_without_execute_warns() -> None:
    assert list(check(options("reset-offsets group=g"))) == [WARN_DRY_RUN]
    assert list(check(options("reset-offsets group=g dry-run"))) == []
    assert options("reset-offsets").is_dry_run
    assert not options("reset-offsets execute").is_dry_run


@pytest.mark.parametrize("text", ["", "list describe group=g", "group=g"])
def test_exactly_one_action(text: str) -> None:
    with pytest.raises(UsageProblem, match="Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "):
        assert options(text).action


def test_values() -> None:
    given = options("describe group=b group=a group=b timeout=1000")
    assert (given.groups, given.timeout_ms, given.one("topic")) == (("b", "a"), 1000, None)
    assert options("describe").timeout_ms == 30_000
    with pytest.raises(CommandFailed, match="Found multiple arguments for option group, but you asked for only one"):
        given.one("group")


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x1", "٣", "9223372036854775808", "9" * 5000, "--1", "1 "])
def test_texts_that_are_no_numbers(text: str) -> None:
    with pytest.raises(CommandFailed, match="Cannot parse argument"):
        parse_number(text, "to-offset")


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("+7", 7), ("-7", -7), ("-9223372036854775808", -(2**63))])
def test_numbers(text: str, number: int) -> None:
    assert parse_number(text, "shift-by") == number


def test_text_that_cannot_be_sent() -> None:
    with pytest.raises(UsageProblem, match="--group is no text in UTF-8"):
        list(check(options("describe group=\udcff")))


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2020-09-13T12:26:50.000", AT_MS),
        ("2020-09-13T12:26:50.123Z", AT_MS + 123),
        ("2020-09-13T12:26:50.5", AT_MS + 5),
        ("2020-09-13T14:26:50.000+02:00", AT_MS),
        ("2020-09-13T14:26:50.000+0200", AT_MS),
        ("2020-09-13T14:26:50.000+02", AT_MS),
        ("2020-09-13T06:56:50.000-05:30", AT_MS),
        ("1970-01-01T00:00:00.000", 0),
    ],
)
def test_points_in_time(text: str, at_ms: int) -> None:
    assert parse_datetime_ms(text) == at_ms


@pytest.mark.parametrize("text", ["nonsense", "2020-09-13", "2020-09-13T", ""])
def test_a_point_in_time_has_a_t(text: str) -> None:
    with pytest.raises(CommandFailed, match="does not contain a 'T' according to ISO8601 format"):
        parse_datetime_ms(text)


@pytest.mark.parametrize("text", ["2020-09-13T12:26:50", "2020-09-13T12:26", "2020-13-13T12:26:50.000", "2020-09-13T25:00:00.000", "xTy"])
def test_points_that_are_none(text: str) -> None:
    with pytest.raises(CommandFailed, match=r'java\.text\.ParseException: Unparseable date: "'):
        parse_datetime_ms(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H", 3_600_000),
        ("P2DT3H4M5S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_000),
        ("PT0.5S", 500),
        ("PT-1.5S", -1_500),
        ("-PT1H", -3_600_000),
        ("PT-30M", -1_800_000),
        ("pt1m", 60_000),
        ("PT1.123456789S", 1_123),
    ],
)
def test_spans_of_time(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1Y", "P1M", "1H", "PT1", "nonsense", "PT" + "9" * 5000 + "S"])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(CommandFailed, match="Text cannot be parsed to a Duration"):
        parse_duration_ms(text)


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
