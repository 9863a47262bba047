"""Scripts for groups: steps from a seed, correct and incorrect requests, chosen by the state of the group.

`Script.next(state)` is pure: the same seed and the same responses give the same steps. Half of the steps are what clients do next, so
that groups form, rebalance and commit; the others are what an operator, a faulty client or a race may send.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.consumer_protocol import encode_subscription
from trials.group_scripts.moves import MOVES
from trials.group_scripts.requests import correct_join, correct_moves, correct_sync, heartbeat, join
from trials.group_scripts.script_state import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OUTSIDER,
    SYNC_GROUP,
    UNREADABLE_SUBSCRIPTION,
    Actor,
    Need,
    ScriptState,
    Step,
)

OF_MEMBERS = frozenset((JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP))
"""Apache Kafka handles these in the order in which it has read them."""
OF_GROUPS = OF_MEMBERS | {OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_GROUPS}
"""All that one group's coordinator handles in one go. DeleteGroups takes it several; others are not its own."""


def may_overlap(state: ScriptState, steps: Sequence[Step], other: Step) -> bool:
    """Whether `other` may be sent before `steps` are answered: a request of another client, none of them setting a timer.

    A timer completes a group's first rebalance, so none begins: some of its members stay.
    """
    together = [*steps, other]
    clients = [step.client_id for step in together if step.client_id != OUTSIDER]
    leaving = sum(len(step.values["members"]) for step in together if step.api == LEAVE_GROUP)
    joins = any(step.api == JOIN_GROUP for step in together)
    return (
        all(step.api in OF_GROUPS and step.arms_ms is None and _reaches_coordinator(state, step) for step in together)
        and len(set(clients)) == len(clients)
        and not (joins and leaving >= len(state.description.members))
    )


def _reaches_coordinator(state: ScriptState, step: Step) -> bool:
    """Whether the coordinator answers: a broker answers for topics that do not exist, as soon as it reads of them."""
    return step.api != OFFSET_COMMIT or all(topic["name"] in state.topics for topic in step.values["topics"])


def may_overlap_on_reference(steps: Iterable[Step]) -> bool:
    """Whether Apache Kafka, too, gives the same responses however much of the steps before each one is done."""
    return all(step.api in OF_MEMBERS for step in steps)


SESSION_SHORT_MS = 400
PAUSE_MS = 900
"""Long enough for a short session to have run out."""

StepMakers = list[Callable[[], Step | None]]


def pending_id_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """An id is handed out, does not join in time, and is then unknown."""
    free = [actor for actor in state.actors if not actor.instance_id and not actor.member_id and not state.is_parked(actor)]
    if not free:
        return None
    actor = rng.choice(free)

    def gets_id() -> Step:
        return join(rng, state, actor, "expire-pending-join", lowest=4, session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def joins_late() -> Step | None:
        return correct_join(rng, state, actor) if actor.member_id and not state.is_parked(actor) else None

    return [gets_id, lambda: Step(kind="expire-pending", pause_ms=PAUSE_MS), joins_late]


def static_member_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """A static member comes back with a short session, which counts from its first heartbeat, and is never learn of again."""
    statics = [actor for actor in state.joined() if actor.instance_id and not state.is_parked(actor)]
    statics = [actor for actor in statics if not (actor.leads and len(state.description.members) > 2)]
    if state.description.state != "Stable" or not statics:
        return None
    actor = rng.choice(statics)

    def rejoins() -> Step:
        return join(rng, state, actor, "expire-static-join", member_id="", session_timeout=SESSION_SHORT_MS)

    def sends_heartbeat() -> Step:
        return heartbeat(rng, state, actor, "expire-static-heartbeat").armed(SESSION_SHORT_MS)

    return [rejoins, sends_heartbeat, lambda: _wait_unless_parked(state, actor.number, "expire-static")]


def lone_member_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """The only member joins again with a short session, fetches its assignment or not, and sends nothing more."""
    joined = state.joined()
    pending = [actor for actor in state.actors if actor.member_id and actor.member_id not in state.description.members]
    if state.description.state != "Stable" or len(state.description.members) != 1 or len(joined) != 1 or pending or state.parked:
        return None
    (actor,) = joined
    if not actor.leads:
        return None

    def joins() -> Step:
        return join(rng, state, actor, "expire-alone-join", session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def syncs() -> Step | None:
        return correct_sync(rng, state, actor) if actor.need is Need.SYNC and not state.is_parked(actor) else None

    wait: Callable[[], Step | None] = lambda: _wait_unless_parked(state, actor.number, "expire-alone")  # noqa: E731
    return [joins, syncs, wait] if rng.random() < 0.6 else [joins, wait]


TIMER_MOVES = (pending_id_runs_out, static_member_runs_out, lone_member_runs_out)


def absent_members(rng: Random, state: ScriptState) -> set[int]:
    """Members of a hurried script that do not join the next rebalance.

    The leader is not among them if several members remain, since Kafka then chooses an arbitrary leader.
    """
    absent = {actor.number for actor in state.joined() if rng.random() < 0.3}
    awake = [actor for actor in state.joined() if actor.number not in absent]
    if len(awake) >= 2:
        absent -= {actor.number for actor in state.joined() if actor.leads}
    return absent


def is_stable(state: ScriptState) -> bool:
    """Whether no timer of a rebalance runs: the group is empty, or stable with every member synced."""
    if state.description.state in ("Empty", "Dead"):
        return True
    if state.description.state != "Stable" or state.parked:
        return False
    owners = [state.owner(member_id) for member_id in state.description.members]
    newest = max((actor.generation for actor in state.actors), default=-1)
    return all(owner is not None and owner.need is Need.NOTHING and owner.generation == newest for owner in owners)


def _wait_unless_parked(state: ScriptState, actor: int, kind: str) -> Step | None:
    if any(step.actor == actor for step in state.parked.values()):
        state.is_over = True  # its session would begin to run at some later moment
        return None
    return Step(kind=kind)


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
