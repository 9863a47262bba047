"""Runs a script on two brokers at the same time and compares them after every step.

The first broker is the reference. Every response, the set of parked requests, and the described group are compared; a known difference is
counted, any other ends the script. Records of the offsets topic are compared in records.

Of requests that were under way at once, the order of the responses is compared as far as it is a rule of Apache Kafka's: a group's
requests are handled in the order in which they were read, and what one of them answers (itself and those that it settles) comes before
what the next one answers. The responses that one request causes come in any order there: that of a hash map of member ids, and of the
connections that are ready at once.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ottla.testing.group_scripts.known_differences import LastLeader, reason_for_missing, reason_to_end
from ottla.testing.group_scripts.player import POLL_SECONDS, Player, group_description
from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import JOIN_GROUP, OFFSET_COMMIT, Step

ANSWER_SECONDS_MAX = 10.0
LAG_SECONDS_MAX = 3.0
DELETE_TOPICS = 20


class TooSlow(Exception):
    """The machine was too busy: a short timer may have fired before its step, so the script has no result."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a script: its steps, known differences (counted), and unexplained ones, as text."""

    seed: int
    group: str
    steps: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    pairs: int = 0
    """Pairs of answers whose order was compared."""
    differences: list[str] = field(default_factory=list)
    too_slow: str = ""


class ScriptComparison:
    """One script on two brokers."""

    def __init__(self, script: Script, players: tuple[Player, Player], slots: AbstractContextManager[Any]) -> None:
        self.script = script
        self.players = players
        self._slots = slots
        self.outcome = Outcome(script.seed, script.state.group)
        self._number = 0
        self._deadline: float | None = None
        self._stable_at = time.monotonic()
        self._last_leader = LastLeader()
        self._sent: dict[int, Step] = {}

    def play(self) -> Outcome:
        """Run until the script ends or the brokers differ. Raises TooSlow."""
        self._compare([player.settle() for player in self.players])
        while not self.outcome.differences and (step := self.script.next()) is not None:
            if step.api is None:
                self._note(self._number + 1, step)
                self._wait(step)
            elif self.script.style.hurried or self._deadline is not None or step.arms_ms is not None:
                self._take([step])
            else:
                with self._slots:
                    self._take([step, *self.script.sent_with(step)])
        for player in self.players:
            player.end()
        return self.outcome

    def _note(self, number: int, step: Step) -> None:
        self.outcome.steps.append(f"{number}. {step}")
        self.outcome.kinds[step.kind] += 1

    def _take(self, steps: Sequence[Step]) -> None:
        """Take one step, or several without waiting for responses in between."""
        asked = dict(enumerate(steps, self._number + 1))
        self._number += len(steps)
        if not self.script.is_hurried_now:
            self._stable_at = time.monotonic()
        starts_first_rebalance = steps[0].api == JOIN_GROUP and not self.script.state.description.members
        for number, step in asked.items():
            self._note(number, step)
            if step.arms_ms is not None:
                self._deadline = time.monotonic() + step.arms_ms / 2000
            self._sent[number] = self.script.state.parked[number] = step
        answers, in_order = self._ask_one(asked) if len(asked) == 1 else self._ask_several(asked)
        if starts_first_rebalance:
            # A timer completes the first rebalance of a group, after a delay of 0 ms: a little later than the request that starts it.
            for player, received in zip(self.players, answers):
                if player.description["members"]:
                    self._await_answer(player, received)
                    received |= player.settle()
        if any(step.api == OFFSET_COMMIT for step in steps):
            for player in self.players:
                player.flush()
        if steps[0].api == DELETE_TOPICS:
            self._forget_topics(steps[0], answers)
        self._check_time()
        self._compare(answers, in_order)

    def _ask_one(self, asked: Mapping[int, Step]) -> tuple[list[dict[int, Any]], list[tuple[int, int]]]:
        for player in self.players:
            player.send(asked)
        return [player.settle() for player in self.players], []

    def _ask_several(self, asked: Mapping[int, Step]) -> tuple[list[dict[int, Any]], list[tuple[int, int]]]:
        """Send the steps to our broker at once, and to the reference one after the other; the responses, and which come before which.

        The reference has handled each step before it gets the next one; or it has only read it, and has several under way.
        """
        reference, ours = self.players
        ours.send(asked)
        theirs: dict[int, Any] = {}
        in_order: list[tuple[int, int]] = []
        overlap = self.script.overlaps_on_reference(asked.values())
        for number, step in asked.items():
            reference.send({number: step})
            received = reference.touch() if overlap else reference.settle()
            if step.api == OFFSET_COMMIT:
                reference.flush()
            # What one step has answered comes in any order, and before what the next one answers: itself, and others if it was handled.
            in_order += [(earlier, later) for earlier in theirs for later in ({number} if overlap else received)]
            theirs |= received
        if overlap:
            theirs |= reference.settle()
        return [theirs, ours.settle()], in_order

    def _wait(self, step: Step) -> None:
        if step.pause_ms is not None:
            time.sleep(step.pause_ms / 1000)
            self._compare([player.settle() for player in self.players])
        else:
            before = [player.description for player in self.players]
            answers = [self._until_changed(player, description) for player, description in zip(self.players, before)]
            # One broker's late responses may belong together with earlier ones of the other.
            for player, received in zip(self.players, answers):
                received |= player.settle()
            self._compare(answers)
        self._deadline = None
        self._stable_at = time.monotonic()

    def _await_answer(self, player: Player, received: dict[int, Any]) -> None:
        received |= player.settle_until(lambda so_far: self._number in so_far | received, ANSWER_SECONDS_MAX)

    def _until_changed(self, player: Player, before: Any) -> dict[int, Any]:
        return player.settle_until(lambda received: bool(received) or player.description != before, self.script.wait_seconds_max)

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}")
        if self.script.style.hurried and now > self._stable_at + self.script.hurry_ms / 2000:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}, in a rebalance")

    def _forget_topics(self, step: Step, answers: list[dict[int, Any]]) -> None:
        """Wait until the offsets of deleted topics are deleted: on Apache Kafka a little after the response."""
        state = self.script.state
        for topic in step.values["topic_names"]:
            state.topics.pop(topic)
            state.gone_topics.add(topic)
        for player, received in zip(self.players, answers):
            self._await_answer(player, received)
            player.wait_for_topics_gone(step.values["topic_names"])

    def _await_lagging(self, answers: list[dict[int, Any]]) -> None:
        """Wait a moment for a broker that seems to lag: requests or responses on two connections may overtake each other."""
        deadline = time.monotonic() + LAG_SECONDS_MAX
        while time.monotonic() < deadline:
            one_sided = [number for number in answers[0].keys() ^ answers[1].keys() if not self._is_explained(number, answers)]
            if not one_sided and self.players[0].description == self.players[1].description:
                return
            time.sleep(POLL_SECONDS)
            for player, received in zip(self.players, answers):
                received |= player.settle()

    def _is_explained(self, number: int, answers: list[dict[int, Any]]) -> bool:
        return reason_for_missing(self._sent, number, answers[1].get(number), answers[0].get(number)) is not None

    def _compare(self, answers: list[dict[int, Any]], in_order: Sequence[tuple[int, int]] = ()) -> None:
        self._await_lagging(answers)
        theirs, ours = answers
        state, outcome = self.script.state, self.outcome
        for number in sorted(theirs.keys() | ours.keys()):
            step = self._sent[number]
            if number in theirs and number in ours:
                found = list(differences(ours[number], theirs[number], f"answer to step {number} ({step.kind})"))
                reason = None
            else:
                found = [self._one_sided(number, theirs, ours)]
                reason = reason_for_missing(self._sent, number, ours.get(number), theirs.get(number))
            if found and reason is None:
                outcome.differences.extend(found)
            elif reason is not None:
                outcome.explained[reason] += 1
        end = reason_to_end(self._sent, theirs, ours, self._last_leader, group_description(self.players[0].description).members)
        self._last_leader.learn(theirs)
        if end is not None:
            outcome.differences.clear()
            outcome.explained[end] += 1
            state.is_over = True
            return
        pairs = [pair for pair in in_order if ours.keys() >= set(pair) and _are_of_one_group(*(self._sent[number] for number in pair))]
        outcome.pairs += len(pairs)
        for first, second in out_of_order(list(ours), pairs):
            earlier, later = (f"step {number} ({self._sent[number].kind})" for number in (first, second))
            outcome.differences.append(f"{earlier} is answered before {later} and should be answered after it")
        described = [player.description for player in self.players]
        if not outcome.differences:
            outcome.differences.extend(differences(described[1], described[0], f"the group after step {self._number}"))
        for number, answer in sorted(theirs.items()):
            state.parked.pop(number, None)
            state.learn(self._sent[number], answer)
            outcome.errors[answer.get("error_code", 0)] += 1
        outcome.answers += len(theirs)
        state.description = group_description(described[0])

    def _one_sided(self, number: int, theirs: Mapping[int, Any], ours: Mapping[int, Any]) -> str:
        step = self._sent[number]
        if number in ours:
            return f"step {number} ({step.kind}) is answered {ours[number]} and should be parked"
        return f"step {number} ({step.kind}) is parked and should be answered {theirs[number]}"


def out_of_order(answered: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those of `pairs`, the earlier step first, that were answered the other way round: what came first, and before what."""
    places = {number: place for place, number in enumerate(answered)}
    return ((later, earlier) for earlier, later in pairs if places[later] < places[earlier])


def _are_of_one_group(one: Step, other: Step) -> bool:
    group_id = one.values.get("group_id")
    return group_id is not None and group_id == other.values.get("group_id")


def differences(ours: Any, theirs: Any, where: str) -> Iterator[str]:
    """Every field in which two masked responses differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} and should be {theirs!r}"
