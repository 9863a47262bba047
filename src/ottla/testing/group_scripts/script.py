"""Scripts for groups: from a seed, one step after another, right requests and wrong ones, chosen by the state that a group has reached.

`Script.next(view)` is pure: the same seed and the same answers give the same steps. Half of the steps are what clients would do next, so
that groups form, rebalance and commit; the others are whatever an operator, a confused client or a race could send. Playing them is
the players' (play, duel).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ottla.testing.group_scripts.moves import MOVES, honest_moves
from ottla.testing.group_scripts.timers import SESSION_SHORT_MS, TIMER_MOVES, is_calm, lazy_members
from ottla.testing.group_scripts.view import UNREADABLE_SUBSCRIPTION, Actor, Step, View
from ottla.testing.sim_protocol import encode_subscription

STEPS_MAX = 45
TIMER_SHARE = 0.06
CALM_MS = (150_000, 180_000, 240_000)
"""Timeouts that never run out while a script is played."""
TOPICS = {"flights": 3, "trains": 2}
PROTOCOLS = {
    "consumer": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "connect": ("default", "sessioned"),
    "custom": ("a", "b", "c"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a script is about. `honest_share` of its steps make progress; a `hurried` one lets its short rebalance timeouts run out."""

    actors: int
    protocol_type: str
    honest_share: float
    hurried: bool
    deletes_topic: bool


class Script:
    """One script. `group` and the topics are names that nobody else uses; `hurry_ms` is the rebalance timeout of hurried scripts."""

    def __init__(self, seed: int, name: str, *, group_size_max: int | None = None, hurry_ms: int = 1_500) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.style = _style(self.rng, group_size_max)
        topics = dict(TOPICS)
        self.own_topic = f"{name}-gone" if self.style.deletes_topic else None
        if self.own_topic:
            topics[self.own_topic] = 2
        self.view = View(group=name, protocol_type=self.style.protocol_type, topics=topics)
        rebalance_ms = hurry_ms if self.style.hurried else None
        self.view.actors = [self._actor(number, rebalance_ms) for number in range(self.style.actors)]
        self.length = self.rng.randint(STEPS_MAX // 3, STEPS_MAX)
        self.taken = 0
        self.hurry_ms = hurry_ms
        self._planned: deque[Callable[[], Step | None]] = deque()
        self._lazy: set[int] = set()

    def next(self) -> Step | None:
        """The next step; None when the script is over. `view` must know the answers to the last one."""
        while self._planned and not self.view.is_over:
            step = self._planned.popleft()()
            if step is not None:
                return step
        self.taken += 1
        if self.taken > self.length or self.view.is_over:
            return None
        return self._choose()

    @property
    def is_hurried_now(self) -> bool:
        """Whether a round is under way that has little time."""
        return self.style.hurried and not is_calm(self.view)

    @property
    def wait_seconds_max(self) -> float:
        """Beyond this nothing happens any more: every short timer has run out."""
        return 2.5 * (self.hurry_ms if self.style.hurried else SESSION_SHORT_MS * 4) / 1000

    def _choose(self) -> Step:
        if self.is_hurried_now:
            return self._hurry()
        rng, view = self.rng, self.view
        if rng.random() < self.style.honest_share:
            moves = honest_moves(rng, view)
            if moves:
                return rng.choice(moves)
        if not self.style.hurried and rng.random() < TIMER_SHARE:
            plans = [plan for make in TIMER_MOVES if (plan := make(rng, view))]
            if plans:
                first, *rest = rng.choice(plans)
                self._planned.extend(rest)
                step = first()
                if step is not None:
                    return step
        while True:
            (move,) = rng.choices(MOVES, [move.weight for move in MOVES])
            chosen = move.make(rng, view)
            if chosen is not None:
                if self.style.hurried:
                    self._lazy = lazy_members(rng, view)
                return chosen

    def _hurry(self) -> Step:
        """End the round soon, without those who do not listen; when nobody else has anything to do, its time runs out."""
        moves = [step for step in honest_moves(self.rng, self.view) if step.actor not in self._lazy]
        if moves:
            return self.rng.choice(moves)
        self._lazy = set()
        return Step(kind="expire-round")

    def _actor(self, number: int, rebalance_ms: int | None) -> Actor:
        rng = self.rng
        instance_id = f"static-{number}" if rng.random() < 0.35 else None
        return Actor(
            number=number,
            client_id=f"c{number}",
            instance_id=instance_id,
            protocols=_protocols(rng, self.style.protocol_type, number),
            session_ms=rng.choice(CALM_MS),
            rebalance_ms=rebalance_ms or rng.choice(CALM_MS),
        )


def _style(rng: Random, group_size_max: int | None) -> Style:
    return Style(
        actors=rng.choice([1, 2, 2, 3, 3, 4, 5]) + (0 if group_size_max is None else 2),
        protocol_type=rng.choice(["consumer", "consumer", "consumer", "connect", "custom"]),
        honest_share=rng.choice([0.5, 0.65, 0.8]),
        hurried=rng.random() < 0.12,
        deletes_topic=rng.random() < 0.1,
    )


def _protocols(rng: Random, protocol_type: str, number: int) -> list[tuple[str, bytes]]:
    """The first protocol of the type, and maybe others before or after it, so that most members get on with each other."""
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
