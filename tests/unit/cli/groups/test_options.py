"""Options that do not fit together, in Kafka's order and words."""

import pytest

from ottla.cli.clusters import CommandFailed, UsageProblem
from ottla.cli.groups.options import WARN_DRY_RUN, GroupsOptions, check, parse_number


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
