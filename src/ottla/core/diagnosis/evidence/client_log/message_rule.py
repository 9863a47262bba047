"""The rule that one kind of message of a client is, and what is remembered of earlier messages in the same log."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.core.diagnosis.evidence.client_reasons import NOTHING, Meaning
from ottla.core.diagnosis.evidence.log_reading import Facts
from ottla.core.diagnosis.evidence.model import Kind

GENERATION: Final = r"(?P<generation>-?\d{1,10})"
MEMBERS_MAX: Final = 10_000


class Joined(NamedTuple):
    """What a member said when it joined last."""

    member_id: str | None
    generation: int


@dataclass(slots=True)
class ClientPast:
    """What one log said before, for messages that do not repeat it.

    joined: by (client id, group), each None where this client's messages do not name it, the last one last. next_meaning: why a member is
    going to join again, for clients that log that before. is_left: a member left and has not joined again. rejoining: groups that are being
    joined. epochs: the last epoch by member id. groups: by client id, for clients that name the group in some messages.
    client_id: whose message is being read. leave_meanings: why a client left, by its id. subscribed: topics by
    client id; by_pattern: client ids that subscribe to a pattern. is_unsubscribed: a member has unsubscribed and not joined again.
    """

    joined: dict[tuple[str | None, str | None], Joined] = field(default_factory=dict)
    next_meaning: Meaning = NOTHING
    is_left: bool = False
    rejoining: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    client_id: str = ""
    leave_meanings: dict[str, Meaning] = field(default_factory=dict)
    subscribed: dict[str, frozenset[str]] = field(default_factory=dict)
    by_pattern: set[str] = field(default_factory=set)
    is_unsubscribed: bool = False

    def only_group(self) -> str | None:
        """The group, where the log is of one only."""
        groups = {group for _, group in self.joined if group is not None}
        return groups.pop() if len(groups) == 1 else None

    def is_new_epoch(self, member_id: str, epoch: int) -> bool:
        """Whether a member has another epoch than before; it is remembered."""
        if epoch <= 0 or self.epochs.get(member_id) == epoch:
            return False
        self.epochs[member_id] = epoch
        if len(self.epochs) > MEMBERS_MAX:
            del self.epochs[next(iter(self.epochs))]
        return True

    def complete(self, facts: Facts) -> Facts:
        """Add the member and the generation, from when this client joined, to what does not name them."""
        key = (facts.get("client_id"), facts.get("group"))
        if facts["kind"] is Kind.CLIENT_JOINED:
            self.joined.pop(key, None)
            self.joined[key] = Joined(facts.get("member_id"), facts["generation"])
            self.rejoining.discard(key[1] or "")
            self.is_left, self.is_unsubscribed, self.next_meaning = False, False, NOTHING
            if len(self.joined) > MEMBERS_MAX:
                del self.joined[next(iter(self.joined))]
            return facts
        last = self.joined.get(key)
        if last is None:
            return facts
        return facts | {"member_id": facts.get("member_id") or last.member_id, "generation": facts.get("generation", last.generation)}


Handler = Callable[[re.Match[str], ClientPast], Sequence[Facts]]


class Rule(NamedTuple):
    """One kind of message: a pattern for its beginning, and what makes facts of it."""

    pattern: re.Pattern[str]
    facts: Handler


def rule(pattern: str, facts: Handler) -> Rule:
    """A rule for messages that begin in this form."""
    return Rule(re.compile(pattern), facts)


def first_facts(text: str, rules: Sequence[Rule], past: ClientPast) -> Sequence[Facts]:
    """What the first rule that fits says; nothing where none does: a client writes much that is not about its membership."""
    for each in rules:
        found = each.pattern.match(text)
        if found is not None:
            return each.facts(found, past)
    return ()


def meaning_facts(meaning: Meaning) -> Facts:
    """The cause, or the candidates, as fields of evidence."""
    return {"trigger": meaning.trigger, "candidates": meaning.candidates}
