"""`ottla groups --describe --watch`: one description after the other, and the end by Ctrl-C."""

import io
import json
from typing import Any

import pytest

from ottla.cli.groups.options import GroupsOptions
from ottla.cli.groups.watching import watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Sleep:
    """Ctrl-C comes in the last of `looks` pauses."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.asked: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def options(*flags: str, **values: str) -> GroupsOptions:
    return GroupsOptions(frozenset(flags), {name.replace("_", "-"): (value,) for name, value in values.items()})


def test_the_group_is_described_until_ctrl_c(groups: Any) -> None:
    given = options("describe", "all-groups", bootstrap_server=groups.servers, watch="")
    out, err, sleep = Terminal(), io.StringIO(), Sleep(2)
    assert watch(given, out=out, err=err, sleep=sleep) == 0
    assert sleep.asked == [2, 2]
    assert out.getvalue().count("\x1b[H\x1b[2J") == 2


def test_one_json_object_a_look(groups: Any) -> None:
    given = options("describe", "all-groups", "state", bootstrap_server=groups.servers, watch="7")
    out, sleep = io.StringIO(), Sleep(3)
    assert watch(given, out=out, err=io.StringIO(), as_json=True, sleep=sleep) == 0
    assert sleep.asked == [7] * 3
    assert [list(json.loads(line)) for line in out.getvalue().splitlines()] == [["groups"]] * 3


def test_a_broker_that_does_not_answer_is_one_look() -> None:
    given = options("describe", "all-groups", bootstrap_server="127.0.0.1:1", watch="1", timeout="1")
    out = io.StringIO()
    assert watch(given, out=out, err=io.StringIO(), sleep=Sleep(2)) == 0
    assert out.getvalue().count("Error: Executing consumer group command failed") == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (options("describe", "all-groups", bootstrap_server="h:1", watch="0"), "write a number of seconds from 1 to 86400"),
        (options("describe", "all-groups", bootstrap_server="h:1", watch="soon"), "Cannot parse argument 'soon' of option watch"),
        (options("list", bootstrap_server="h:1", watch="1"), "Option(s) [watch] are unavailable given other options"),
        (options("describe", watch="1", bootstrap_server="h:1"), "Option [describe] takes one of these options"),
    ],
)
def test_what_cannot_be_watched(given: GroupsOptions, words: str) -> None:
    err = io.StringIO()
    assert watch(given, out=io.StringIO(), err=err, sleep=Sleep(1)) == 1
    assert words in err.getvalue()
