"""Scripts for groups: steps from a seed, correct and incorrect requests, chosen by the state of the group.

`Script.next(state)` is pure: the same seed and the same responses give the same steps. Half of the steps are what clients do next, so
that groups form, rebalance and commit; the others are what an operator, a faulty client or a race may send.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from ottla.testing.group_scripts.correct_moves import correct_moves
from ottla.testing.group_scripts.moves import MOVES
from ottla.testing.group_scripts.overlaps import may_overlap, may_overlap_on_reference
from ottla.testing.group_scripts.script_state import UNREADABLE_SUBSCRIPTION, Actor, ScriptState, Step
from ottla.testing.group_scripts.timers import SESSION_SHORT_MS, TIMER_MOVES, absent_members, is_stable
from ottla.testing.kit.consumer_protocol import encode_subscription

STEPS_MAX = 45
TIMER_SHARE = 0.06
OVERLAP_SHARE = 0.4
"""The share of steps that others are sent with, before they are answered."""
OVERLAPS_MAX = 4
LONG_TIMEOUTS_MS = (150_000, 180_000, 240_000)
"""Timeouts that never expire while a script runs."""
TOPICS = {"flights": 3, "trains": 2}
PROTOCOLS = {
    "consumer": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "connect": ("default", "sessioned"),
    "custom": ("a", "b", "c"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The character of a script. `correct_share` of its steps make progress; in a `hurried` one short rebalance timeouts expire."""

    actors: int
    protocol_type: str
    correct_share: float
    hurried: bool
    deletes_topic: bool


class Script:
    """One script. `group` and the topics have unique names; `hurry_ms` is the rebalance timeout of hurried scripts."""

    def __init__(self, seed: int, name: str, *, group_size_max: int | None = None, hurry_ms: int = 1_500) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.style = _style(self.rng, group_size_max)
        topics = dict(TOPICS)
        self.own_topic = f"{name}-gone" if self.style.deletes_topic else None
        if self.own_topic:
            topics[self.own_topic] = 2
        self.state = ScriptState(group=name, protocol_type=self.style.protocol_type, topics=topics)
        rebalance_ms = hurry_ms if self.style.hurried else None
        self.state.actors = [self._actor(number, rebalance_ms) for number in range(self.style.actors)]
        self.length = self.rng.randint(STEPS_MAX // 3, STEPS_MAX)
        self.taken = 0
        self.hurry_ms = hurry_ms
        self._next_steps: deque[Callable[[], Step | None]] = deque()
        self._absent: set[int] = set()

    def next(self) -> Step | None:
        """The next step; None at the end of the script. `state` must be updated from the responses to the last one."""
        while self._next_steps and not self.state.is_over:
            step = self._next_steps.popleft()()
            if step is not None:
                return step
        self.taken += 1
        if self.taken > self.length or self.state.is_over:
            return None
        return self._choose()

    def sent_with(self, step: Step) -> list[Step]:
        """More steps, sent before `step` is answered: of other clients, and chosen as if nothing had changed meanwhile."""
        if self.style.hurried or self._next_steps or self.rng.random() >= OVERLAP_SHARE:
            return []
        steps = [step]
        for _ in range(self.rng.randint(1, OVERLAPS_MAX)):
            moves = correct_moves(self.rng, self.state) if self.rng.random() < self.style.correct_share else []
            other = self.rng.choice(moves) if moves else self._any_move()
            if other is not None and may_overlap(self.state, steps, other):
                steps.append(other)
        return steps[1:]

    def overlaps_on_reference(self, steps: Collection[Step]) -> bool:
        """Whether the reference, too, gets each of the steps before it has answered the last one: in every other script, where it can."""
        return self.seed % 2 == 0 and may_overlap_on_reference(steps)

    @property
    def is_hurried_now(self) -> bool:
        """Whether a rebalance with a short timeout is in progress."""
        return self.style.hurried and not is_stable(self.state)

    @property
    def wait_seconds_max(self) -> float:
        """After this time every short timer has fired."""
        return 2.5 * (self.hurry_ms if self.style.hurried else SESSION_SHORT_MS * 4) / 1000

    def _choose(self) -> Step:
        if self.is_hurried_now:
            return self._complete_rebalance()
        rng, state = self.rng, self.state
        if rng.random() < self.style.correct_share:
            moves = correct_moves(rng, state)
            if moves:
                return rng.choice(moves)
        if not self.style.hurried and rng.random() < TIMER_SHARE:
            choices = [assignments for make in TIMER_MOVES if (assignments := make(rng, state))]
            if choices:
                first, *rest = rng.choice(choices)
                self._next_steps.extend(rest)
                step = first()
                if step is not None:
                    return step
        while (chosen := self._any_move()) is None:
            pass
        if self.style.hurried:
            self._absent = absent_members(rng, state)
        return chosen

    def _any_move(self) -> Step | None:
        (move,) = self.rng.choices(MOVES, [move.weight for move in MOVES])
        return move.make(self.rng, self.state)

    def _complete_rebalance(self) -> Step:
        """Complete the rebalance without the absent members; when the others have nothing to do, wait for its timeout."""
        moves = [step for step in correct_moves(self.rng, self.state) if step.actor not in self._absent]
        if moves:
            return self.rng.choice(moves)
        self._absent = set()
        return Step(kind="expire-rebalance")

    def _actor(self, number: int, rebalance_ms: int | None) -> Actor:
        rng = self.rng
        instance_id = f"static-{number}" if rng.random() < 0.35 else None
        return Actor(
            number=number,
            client_id=f"c{number}",
            instance_id=instance_id,
            protocols=_protocols(rng, self.style.protocol_type, number),
            session_ms=rng.choice(LONG_TIMEOUTS_MS),
            rebalance_ms=rebalance_ms or rng.choice(LONG_TIMEOUTS_MS),
        )


def _style(rng: Random, group_size_max: int | None) -> Style:
    return Style(
        actors=rng.choice([1, 2, 2, 3, 3, 4, 5]) + (0 if group_size_max is None else 2),
        protocol_type=rng.choice(["consumer", "consumer", "consumer", "connect", "custom"]),
        correct_share=rng.choice([0.5, 0.65, 0.8]),
        hurried=rng.random() < 0.12,
        deletes_topic=rng.random() < 0.1,
    )


def _protocols(rng: Random, protocol_type: str, number: int) -> list[tuple[str, bytes]]:
    """The first protocol of the type, and possibly others before or after it, so that most members have one in common."""
    first, *others = PROTOCOLS[protocol_type]
    names = [first, *rng.sample(others, rng.randint(0, len(others)))]
    rng.shuffle(names)
    return [(name, _metadata(rng, protocol_type, number)) for name in names]


def _metadata(rng: Random, protocol_type: str, number: int) -> bytes:
    if protocol_type != "consumer":
        return rng.choice([b"", b"\x00", f"member {number}".encode()])
    if rng.random() < 0.9:
        return encode_subscription(rng.sample(sorted(TOPICS), rng.randint(0, len(TOPICS))))
    return rng.choice([b"", b"\x00", UNREADABLE_SUBSCRIPTION] if rng.random() < 0.1 else [b"", b"\x00"])
