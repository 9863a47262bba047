"""Tests of the command line of `ottla consume`."""

from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.consume import run as run_module
from ottla.cli.consume.properties import Source
from ottla.cli.consume.reading import Limits
from ottla.cli.consume.run import ConsumeOptions
from ottla.cli.consume.starts import END, STORED, Start, StartKind
from ottla.cli.main import main

REQUIRED = ["--bootstrap-server", "h:1", "--topic", "t"]


@pytest.fixture
def given(monkeypatch: Any) -> list[ConsumeOptions]:
    """The options of each run."""
    found: list[ConsumeOptions] = []
    monkeypatch.setattr(run_module, "run", lambda options, **_: found.append(options) or 0)
    return found


def consume(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["consume", *arguments])


def test_the_options_of_the_command_line(given: list[ConsumeOptions]) -> None:
    more = ["--topic", "^u", "--partition", "3", "--offset", "-7", "--count", "5", "--exit-at-end", "--timeout", "2.5"]
    more += ["--isolation-level", "read_uncommitted", "--config", "fetch.min.bytes=1", "--command-config", "f"]
    assert consume(*REQUIRED, *more).exit_code == 0
    assert consume(*REQUIRED, "--group", "g", "--offset", "end").exit_code == 0
    assert consume(*REQUIRED, "--group", "g", "--partition", "0", "--offset", "stored").exit_code == 0
    source = Source(bootstrap_server="h:1", isolation_level="read_uncommitted", command_config="f", config=(("fetch.min.bytes", "1"),))
    limits = Limits(count=5, at_end=True, timeout_s=2.5)
    first, second, third = given
    assert (first.source, first.limits, first.topics, first.partitions) == (source, limits, ("t", "^u"), (3,))
    assert first.start == Start(StartKind.BEFORE_END, 7)
    assert second.source == Source(bootstrap_server="h:1", group="g", is_member=True, reset="latest", config=())
    assert (second.start, second.limits) == (END, Limits())
    assert third.source == Source(bootstrap_server="h:1", group="g", is_member=False, config=())
    assert (third.start, third.partitions) == (STORED, (0,))


def test_what_a_record_looks_like(given: list[ConsumeOptions]) -> None:
    class Record:
        key, value, headers, timestamp = (lambda _: b"k"), (lambda _: None), (lambda _: None), (lambda _: (1, 5))
        topic, partition, offset = (lambda _: "t"), (lambda _: 0), (lambda _: 1)

    for more in ([], ["--key-only"], ["-f", "%o;", "--null", "-"], ["--null", "-"], ["--json"]):
        assert consume(*REQUIRED, *more).exit_code == 0
    shown = [each.render([Record()]) for each in given]  # type: ignore[list-item]
    assert shown[:4] == [b"\n", b"k\n", b"1;", b"-\n"]
    assert shown[4].startswith(b'{"topic": "t"')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option"),
        ([*REQUIRED, "--offset", "x"], "is none of beginning, end, stored"),
        ([*REQUIRED, "--offset", "stored"], "needs --group and --partition"),
        ([*REQUIRED, "--group", "g", "--offset", "5"], "begin at its committed offsets"),
        ([*REQUIRED, "--format", "%z"], "%z is none of"),
        ([*REQUIRED, "--format", "%k", "--json"], "choose one of"),
        ([*REQUIRED, "--key-only", "--json"], "choose one of"),
        ([*REQUIRED, "--count", "0"], "--count"),
        ([*REQUIRED, "--config", "x"], "write a setting as NAME=VALUE"),
    ],
)
def test_what_is_missing_or_wrong(arguments: list[str], words: str) -> None:
    result = consume(*arguments)
    assert result.exit_code == 2
    assert words in result.output
