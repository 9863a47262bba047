"""Pieces of regular expressions for the coordinator's lines, and the rule that one kind of line is.

Group ids, client ids and reasons are chosen by strangers and may hold any text, also that of the line around them. Member ids that a broker
made end in a UUID, and that is where they are taken to end. Lengths are limited, so that no line takes long to refuse.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.core.diagnosis.evidence.broker_log.memory import Memory
from ottla.core.diagnosis.evidence.log_reading import Facts

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
STATE: Final = r"(?:Empty|PreparingRebalance|CompletingRebalance|Stable|Dead|AwaitingSync)"
GROUP: Final = r"(?P<group>.{1,1000})"
FIRST_GROUP: Final = r"(?P<group>.{1,1000}?)"
"""For lines that end with a stranger's text: the shortest group id that fits."""
MEMBER: Final = rf"(?P<member>.{{1,1000}}?-{UUID}|.{{1,1000}}?)"
REPLACED: Final = rf"(?P<replaced>.{{1,1000}}?-{UUID}|.{{1,1000}}?)"
INSTANCE: Final = r"(?P<instance>.{1,1000}?)"
CLIENT_REASON: Final = r"(?:; client reason: (?P<client_reason>.*))?"
PARTITION: Final = r"(?: \(__consumer_offsets-\d+\))?"
"""The coordinators of 2.x and 3.x name the group's partition in the line."""

MEMBER_SEPARATOR: Final = re.compile(rf"(?<={UUID}), ")

Handler = Callable[[re.Match[str], Memory], Sequence[Facts]]


class Rule(NamedTuple):
    """One kind of line: the word that it begins with, its pattern, for the whole message, and what makes facts of it."""

    word: str
    pattern: re.Pattern[str]
    facts: Handler


def rule(word: str, rest: str, facts: Handler) -> Rule:
    """A rule for messages that begin with this text and go on in this form; a last full stop may be there or not."""
    return Rule(word, re.compile(rf"{re.escape(word)}{rest}\.?$"), facts)


def no_facts(_found: re.Match[str], _memory: Memory) -> Sequence[Facts]:
    """A line that is known and no evidence."""
    return ()


def option(text: str | None) -> str | None:
    """The value of what Java prints as `null` or `x`, and Scala as `None` or `Some(x)`."""
    if text in (None, "None", "null"):
        return None
    if text.startswith("Some(") and text.endswith(")"):
        return text[5:-1]
    return text


def member_ids(text: str) -> tuple[str, ...]:
    """The ids in a list as Java and Scala print it: `m1, m2`, `[m1, m2]`, `Set(m1, m2)`."""
    for start, end in (("[", "]"), ("Set(", ")"), ("HashSet(", ")")):
        if text.startswith(start) and text.endswith(end):
            text = text[len(start) : -len(end)]
            break
    if not text:
        return ()
    return tuple(MEMBER_SEPARATOR.split(text)) if re.search(rf"{UUID}$", text) else tuple(text.split(", "))
