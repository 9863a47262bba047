"""The command line of `ottla groups`: what was asked for, whether it fits together, and what is printed.

Options are checked by Kafka's rules, in Kafka's order and words, without a cluster. Points in time and spans of time are those of
`--to-datetime` and `--by-duration`: text to milliseconds, as strictly as Kafka's tool, without a clock.

An action adds to the standard output, the standard error and one JSON document; at the end either the text or the document is printed.
Tables are laid out as by Kafka's tools.
"""

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ottla.cli.clusters import CommandFailed, UsageProblem
from ottla.text import printable

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS: Final = ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file")
SUB_ACTIONS: Final = ("members", "offsets", "state")
WARN_DRY_RUN: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or "
    "--execute to be specified. You should add the --dry-run option explicitly if you are scripting this command and want to keep the "
    "current default behavior without prompting."
)
TIMEOUT_MS: Final = 30_000
NUMBER_DIGITS_MAX: Final = 100

_DATETIME: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})T(\d{1,2}):(\d{1,2}):(\d{1,2})\.(\d{1,3})(?:Z|([+-])(\d{2}):?(\d{2})?)", re.ASCII
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,15})D)?(T(?:([-+]?\d{1,15})H)?(?:([-+]?\d{1,15})M)?(?:([-+]?\d{1,15})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000

MISSING: Final = "-"


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """The options as they were given: flags are in `flags`, every option with a value is a tuple of all its values.

    Names are those of the command line, without the dashes. `state` and `type` may be given without a value: then it is "".
    """

    flags: frozenset[str]
    values: dict[str, tuple[str, ...]]

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self.flags or bool(self.values.get(name))

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of an option."""
        return self.values.get(name, ())

    def one(self, name: str) -> str | None:
        """The value of an option, None when it was not given. Raises CommandFailed when there are several."""
        values = self.all(name)
        if len(values) > 1:
            raise CommandFailed(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def number(self, name: str) -> int | None:
        """The value of an option that takes a number. Raises CommandFailed when it is none."""
        text = self.one(name)
        return None if text is None else parse_number(text, name)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that were named, each once, in order."""
        return tuple(dict.fromkeys(self.all("group")))

    @property
    def action(self) -> str:
        """What is to be done. Raises UsageProblem unless it is exactly one thing."""
        given = [action for action in ACTIONS if self.has(action)]
        if len(given) != 1:
            raise UsageProblem(f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}")
        return given[0]

    @property
    def timeout_ms(self) -> int:
        """The time that each question to the cluster has."""
        timeout_ms = self.number("timeout")
        return TIMEOUT_MS if timeout_ms is None else timeout_ms

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be changed: the default."""
        return "dry-run" in self.flags or "execute" not in self.flags


def parse_number(text: str, option: str) -> int:
    """A number as Java reads a long. Raises CommandFailed."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > NUMBER_DIGITS_MAX or not -(2**63) <= int(text) < 2**63:
        raise CommandFailed(f"Cannot parse argument '{text}' of option {option}")
    return int(text)


def check(options: GroupsOptions) -> Iterator[str]:
    """Return the warnings that go before everything else; raises UsageProblem when options do not fit together."""
    _check_texts(options)
    _check_available(options)
    if not options.has("bootstrap-server") and not options.has("validate-regex"):
        raise UsageProblem('Missing required argument "[bootstrap-server]"')
    if options.has("describe"):
        _check_describe(options)
    if options.has("delete"):
        _check_scope(options, "delete")
        if options.has("topic"):
            raise UsageProblem("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise UsageProblem("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        yield from _check_reset(options)
    _check_excluded(options, "group", ("all-groups", "list"))
    _check_excluded(options, "topic", ("list", "describe"))


def _check_texts(options: GroupsOptions) -> None:
    """The protocol has texts in UTF-8 alone; a command line may have any bytes."""
    for name, values in options.values.items():
        try:
            "".join(values).encode()
        except UnicodeEncodeError as error:
            raise UsageProblem(f"--{name} is no text in UTF-8") from error


def _check_available(options: GroupsOptions) -> None:
    """Some options mean something beside certain actions only."""
    needs = {
        "members": ("describe",),
        "verbose": ("describe",),
        "offsets": ("describe",),
        "state": ("describe", "list"),
        "type": ("list",),
        "watch": ("describe",),
    }
    lost = [name for name, actions in needs.items() if options.has(name) and not any(map(options.has, actions))]
    if lost:
        raise UsageProblem(f"Option(s) [{', '.join(lost)}] are unavailable given other options on the command line")


def _check_describe(options: GroupsOptions) -> None:
    _check_scope(options, "describe")
    if sum(map(options.has, SUB_ACTIONS)) > 1:
        raise UsageProblem("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if any(options.all("state")):
        raise UsageProblem("Option [describe] does not take a value for [state]")


def _check_reset(options: GroupsOptions) -> Iterator[str]:
    if options.has("dry-run") and options.has("execute"):
        raise UsageProblem("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        yield WARN_DRY_RUN
    _check_scope(options, "reset-offsets")
    for scenario in SCENARIOS:
        _check_excluded(options, scenario, [other for other in SCENARIOS if other != scenario])


def _check_scope(options: GroupsOptions, action: str) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageProblem(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _check_excluded(options: GroupsOptions, name: str, excluded: Sequence[str]) -> None:
    for other in excluded:
        if options.has(name) and options.has(other):
            raise UsageProblem(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of `YYYY-MM-DDThh:mm:ss.sss`, with a zone ("Z", "+02:00", "+0200", "+02") or in UTC. Raises CommandFailed."""
    _, has_t, time_of_day = text.partition("T")
    if not has_t or not time_of_day:
        raise CommandFailed("java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if any(mark in time_of_day for mark in "+-Z") else f"{text}Z"
    found = _DATETIME.fullmatch(zoned)
    if found is None:
        raise CommandFailed(f'java.text.ParseException: Unparseable date: "{zoned}"')
    *numbers, sign, hours, minutes = found.groups()
    year, month, day_of_month, hour, minute, second, millisecond = map(int, numbers)
    try:
        moment = datetime.datetime(year, month, day_of_month, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise CommandFailed(f'java.text.ParseException: Unparseable date: "{zoned}"') from error
    offset_ms = (int(hours or 0) * 60 + int(minutes or 0)) * _MINUTE_MS * (-1 if sign == "-" else 1)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (moment - epoch) // datetime.timedelta(milliseconds=1) + millisecond - offset_ms


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration of days and smaller, `PnDTnHnMn.nS`, each with its own sign. Raises CommandFailed."""
    found = _DURATION.fullmatch(text)
    if found is None or found[3] in ("T", "t") or (found[2] is None and found[3] is None):
        raise CommandFailed("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    total_ms = int(days or 0) * _DAY_MS + int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS + int(seconds or 0) * _SECOND_MS
    fraction_ms = int((fraction or "").ljust(9, "0")) // 1_000_000
    total_ms += -fraction_ms if (seconds or "").startswith("-") else fraction_ms
    return -total_ms if sign == "-" else total_ms


class Column(NamedTuple):
    """A column's title and its least width; `grows` when longer texts make it wider; width 0 stands for the last one, which has none."""

    title: str
    width: int
    grows: bool = False


def text_of(value: object) -> str:
    """A value as it is printed, with escapes for what is not printable; None is missing."""
    return MISSING if value is None else printable(str(value))


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """The title line and one line a row."""
    texts = [[text_of(value) for value in row] for row in rows]
    widths = [max([column.width, *(len(row[at]) for row in texts if column.grows)]) for at, column in enumerate(columns)]
    return [" ".join(text.ljust(width) for text, width in zip(row, widths)) for row in ([column.title for column in columns], *texts)]


@dataclass(slots=True)
class Transcript:
    """Collects lines. `document` is what `--json` prints; `problems` are the sentences of errors, which make its exit status 1."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        """Add lines to standard output. Names in them may hold any character: those that are not printable are escaped."""
        self.out += map(printable, lines)

    def export(self, text: str) -> None:
        """Add text for another program to standard output, as it is."""
        self.out.append(text)

    def warn(self, *lines: str) -> None:
        """Add lines to standard error, with escapes as in `say`."""
        self.err += map(printable, lines)

    def error(self, sentence: str) -> None:
        """Add an error as Kafka's tool prints it: on standard output, after an empty line."""
        self.problems.append(sentence)
        self.say("", f"Error: {sentence}")

    def add(self, **parts: Any) -> None:
        """Add parts to the JSON document."""
        self.document |= parts

    def json_text(self) -> str:
        """The JSON document."""
        problems = {"errors": self.problems} if self.problems else {}
        return json.dumps(self.document | problems, indent=2)
