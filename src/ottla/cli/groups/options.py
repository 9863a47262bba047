"""What was asked for on the command line of `ottla groups`, and whether it fits together: Kafka's rules in Kafka's order and words.

It reads options alone, never a cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.cli.clusters import CommandFailed, UsageProblem

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
