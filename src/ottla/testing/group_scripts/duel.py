"""A script played on two brokers, step by step at once, and everything in which they differ.

The first broker is the one to which the second is held. Every answer, the set of requests that still wait, and the described group are
compared after every step; a difference that has a reason is counted under it, any other ends the script. Records of the offsets topic
are compared in records.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ottla.testing.group_scripts.explained import Led, explain_missing, why_it_ends
from ottla.testing.group_scripts.play import POLL_SECONDS, Player, picture_of
from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.view import JOIN_GROUP, OFFSET_COMMIT, Step

ANSWER_SECONDS_MAX = 10.0
LAG_SECONDS_MAX = 3.0
DELETE_TOPICS = 20


class TooSlow(Exception):
    """A short timer may have run out before its time: the machine was busy, and the script says nothing."""


@dataclass(slots=True)
class Outcome:
    """What came of a script: its steps, differences with reasons (counted), and those without, in words."""

    seed: int
    group: str
    steps: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    too_slow: str = ""


class Duel:
    """One script between two players."""

    def __init__(self, script: Script, players: tuple[Player, Player], lanes: AbstractContextManager[Any]) -> None:
        self.script = script
        self.players = players
        self._lanes = lanes
        self.outcome = Outcome(script.seed, script.view.group)
        self._number = 0
        self._deadline: float | None = None
        self._calm_at = time.monotonic()
        self._led = Led()
        self._sent: dict[int, Step] = {}

    def play(self) -> Outcome:
        """Play until the script ends or the brokers differ. Raises TooSlow."""
        self._compare(*(player.settle() for player in self.players))
        while not self.outcome.differences and (step := self.script.next()) is not None:
            self.outcome.steps.append(f"{self._number + 1}. {step}")
            self.outcome.kinds[step.kind] += 1
            if step.api is None:
                self._wait(step)
            elif self.script.style.hurried or self._deadline is not None or step.arms_ms is not None:
                self._take(step)
            else:
                with self._lanes:
                    self._take(step)
        for player in self.players:
            player.end()
        return self.outcome

    def _take(self, step: Step) -> None:
        self._number += 1
        if not self.script.is_hurried_now:
            self._calm_at = time.monotonic()
        if step.arms_ms is not None:
            self._deadline = time.monotonic() + step.arms_ms / 2000
        opens_round = step.api == JOIN_GROUP and not self.script.view.picture.members
        self._sent[self._number] = self.script.view.parked[self._number] = step
        for player in self.players:
            player.send(self._number, step)
        answers = [player.settle() for player in self.players]
        if opens_round:
            # The first round of a group ends by a timer, if of no time: a little later than the request that opened it.
            for player, said in zip(self.players, answers):
                if player.picture["members"]:
                    self._await_answer(player, said)
                    said |= player.settle()
        if step.api == OFFSET_COMMIT:
            for player in self.players:
                player.flush()
        if step.api == DELETE_TOPICS:
            self._forget_topics(step, answers)
        self._check_time()
        self._compare(*answers)

    def _wait(self, step: Step) -> None:
        if step.pause_ms is not None:
            time.sleep(step.pause_ms / 1000)
            self._compare(*(player.settle() for player in self.players))
        else:
            before = [player.picture for player in self.players]
            answers = [self._until_changed(player, picture) for player, picture in zip(self.players, before)]
            # What one saw late, the other may have seen a moment before the next thing happened.
            for player, said in zip(self.players, answers):
                said |= player.settle()
            self._compare(*answers)
        self._deadline = None
        self._calm_at = time.monotonic()

    def _await_answer(self, player: Player, said: dict[int, Any]) -> None:
        said |= player.settle_until(lambda so_far: self._number in so_far | said, ANSWER_SECONDS_MAX)

    def _until_changed(self, player: Player, before: Any) -> dict[int, Any]:
        return player.settle_until(lambda said: bool(said) or player.picture != before, self.script.wait_seconds_max)

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}")
        if self.script.style.hurried and now > self._calm_at + self.script.hurry_ms / 2000:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}, in a round")

    def _forget_topics(self, step: Step, answers: list[dict[int, Any]]) -> None:
        """A deleted topic takes its offsets with it, a little later than the answer on Apache Kafka."""
        view = self.script.view
        for topic in step.values["topic_names"]:
            view.topics.pop(topic)
            view.gone_topics.add(topic)
        for player, said in zip(self.players, answers):
            self._await_answer(player, said)
            player.wait_for_topics_gone(step.values["topic_names"])

    def _catch_up(self, answers: list[dict[int, Any]]) -> None:
        """Give a broker that seems to lag a moment: two connections may overtake each other on their way in or out."""
        deadline = time.monotonic() + LAG_SECONDS_MAX
        while time.monotonic() < deadline:
            one_sided = [number for number in answers[0].keys() ^ answers[1].keys() if not self._is_explained(number, answers)]
            if not one_sided and self.players[0].picture == self.players[1].picture:
                return
            time.sleep(POLL_SECONDS)
            for player, said in zip(self.players, answers):
                said |= player.settle()

    def _is_explained(self, number: int, answers: list[dict[int, Any]]) -> bool:
        return explain_missing(self._sent, number, answers[1].get(number), answers[0].get(number)) is not None

    def _compare(self, theirs: dict[int, Any], ours: dict[int, Any]) -> None:
        self._catch_up([theirs, ours])
        view, outcome = self.script.view, self.outcome
        for number in sorted(theirs.keys() | ours.keys()):
            step = self._sent[number]
            if number in theirs and number in ours:
                found = list(differences(ours[number], theirs[number], f"answer to step {number} ({step.kind})"))
                reason = None
            else:
                found = [self._one_sided(number, theirs, ours)]
                reason = explain_missing(self._sent, number, ours.get(number), theirs.get(number))
            if found and reason is None:
                outcome.differences.extend(found)
            elif reason is not None:
                outcome.explained[reason] += 1
        end = why_it_ends(self._sent, theirs, ours, self._led, picture_of(self.players[0].picture).members)
        self._led.learn(theirs)
        if end is not None:
            outcome.differences.clear()
            outcome.explained[end] += 1
            view.is_over = True
            return
        described = [player.picture for player in self.players]
        if not outcome.differences:
            outcome.differences.extend(differences(described[1], described[0], f"the group after step {self._number}"))
        for number, answer in sorted(theirs.items()):
            view.parked.pop(number, None)
            view.heard(self._sent[number], answer)
            outcome.errors[answer.get("error_code", 0)] += 1
        outcome.answers += len(theirs)
        view.picture = picture_of(described[0])

    def _one_sided(self, number: int, theirs: Mapping[int, Any], ours: Mapping[int, Any]) -> str:
        step = self._sent[number]
        if number in ours:
            return f"step {number} ({step.kind}) is answered {ours[number]} and should wait"
        return f"step {number} ({step.kind}) waits and should be answered {theirs[number]}"


def differences(ours: Any, theirs: Any, where: str) -> Iterator[str]:
    """Every place where two masked answers differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} and should be {theirs!r}"
