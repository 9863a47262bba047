"""The cases: members of a group, what is done to them and when, with which settings, and which setting is changed.

They are incidents that a setting changes, with each client library, on both brokers; and some that it does not change.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.history.whatif.settings import Settings
from trials.incidents.plan import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON


class Do(StrEnum):
    """What is done to one member; `seconds` is how long it lasts."""

    FREEZE = "freeze"
    """SIGSTOP, then SIGCONT."""
    SLOW = "slow"
    """The work on one poll takes so long."""
    RESTART = "restart"
    """Closed in order, started again after the time."""
    KILL = "kill"
    """SIGKILL, started again after the time; never if it is 0."""


@dataclass(frozen=True, slots=True)
class Step:
    """At `at_s` after the group was stable, member number `member`."""

    at_s: float
    member: int
    do: Do
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTimes:
    """The settings of all members of a run."""

    session_ms: int = 6_000
    heartbeat_ms: int = 1_000
    max_poll_ms: int = 60_000
    assignor: str = "range"
    is_static: bool = False

    def changed(self, settings: Settings) -> "MemberTimes":
        """The same with what `settings` change."""
        return MemberTimes(
            session_ms=settings.session_timeout_ms or self.session_ms,
            heartbeat_ms=settings.heartbeat_interval_ms or self.heartbeat_ms,
            max_poll_ms=settings.max_poll_interval_ms or self.max_poll_ms,
            assignor=settings.assignor or self.assignor,
            is_static=self.is_static if settings.is_static is None else settings.is_static,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`cluster` is "ottla" or "apache-kafka", `clients` one name for each member (see `incidents.plan`). settle_s: the wait at the end."""

    name: str
    cluster: str
    clients: tuple[str, ...]
    steps: tuple[Step, ...]
    change: Settings
    times: MemberTimes = MemberTimes()
    settle_s: float = 4

    @property
    def lasts_s(self) -> float:
        """From a stable group until everything that follows from the steps has happened, with either settings."""
        longest_ms = max(self.times.session_ms, self.times.changed(self.change).session_ms)
        return max(step.at_s + step.seconds for step in self.steps) + longest_ms / 1_000 + self.settle_s


OTTLA, KAFKA = "ottla", "apache-kafka"
SESSION: Final = Settings(session_timeout_ms=16_000)
POLL: Final = Settings(max_poll_interval_ms=24_000)
STATIC: Final = Settings(is_static=True, session_timeout_ms=30_000)
"""A JVM may take ten seconds to start on a busy machine."""
SHORT_POLL: Final = MemberTimes(max_poll_ms=8_000)
FREEZE: Final = (Step(2, 1, Do.FREEZE, 10),)
SLOW: Final = (Step(2, 1, Do.SLOW, 14),)
RESTART: Final = (Step(2, 1, Do.RESTART, 5),)
MIXED: Final = (CONFLUENT, KAFKA_PYTHON, JAVA)

TRIALS: Final = (
    Trial(name="freeze-confluent", cluster=OTTLA, clients=(CONFLUENT,) * 3, steps=FREEZE, change=SESSION),
    Trial(name="freeze-kafka-python", cluster=OTTLA, clients=(CONFLUENT, KAFKA_PYTHON), steps=FREEZE, change=SESSION),
    Trial(name="freeze-java", cluster=OTTLA, clients=(AIOKAFKA, JAVA), steps=FREEZE, change=SESSION),
    Trial(name="slow-confluent", cluster=OTTLA, clients=(CONFLUENT,) * 2, steps=SLOW, change=POLL, times=SHORT_POLL),
    Trial(name="slow-kafka-python", cluster=OTTLA, clients=(CONFLUENT, KAFKA_PYTHON), steps=SLOW, change=POLL, times=SHORT_POLL),
    Trial(name="slow-java", cluster=OTTLA, clients=(CONFLUENT, JAVA), steps=SLOW, change=POLL, times=SHORT_POLL),
    Trial(name="restart-confluent", cluster=OTTLA, clients=(CONFLUENT,) * 3, steps=RESTART, change=STATIC),
    Trial(name="restart-aiokafka", cluster=OTTLA, clients=(CONFLUENT, AIOKAFKA), steps=RESTART, change=STATIC),
    Trial(
        name="rolling-restart",
        cluster=OTTLA,
        clients=MIXED,
        steps=tuple(Step(2 + 10 * each, each, Do.RESTART, 4) for each in range(3)),
        change=STATIC,
    ),
    Trial(
        name="static-to-dynamic",
        cluster=OTTLA,
        clients=(CONFLUENT,) * 3,
        steps=RESTART,
        change=Settings(is_static=False),
        times=MemberTimes(session_ms=30_000, is_static=True),
    ),
    Trial(name="freeze-mixed", cluster=KAFKA, clients=MIXED, steps=FREEZE, change=SESSION),
    Trial(
        name="freeze-short-and-long",
        cluster=KAFKA,
        clients=(CONFLUENT,) * 3,
        steps=(Step(2, 1, Do.FREEZE, 10), Step(24, 2, Do.FREEZE, 24)),
        change=SESSION,
    ),
    Trial(name="freeze-aiokafka", cluster=KAFKA, clients=(CONFLUENT, AIOKAFKA), steps=FREEZE, change=SESSION),
    Trial(name="slow-java-kafka", cluster=KAFKA, clients=(JAVA, JAVA), steps=SLOW, change=POLL, times=SHORT_POLL),
    Trial(
        name="slow-short-and-long",
        cluster=KAFKA,
        clients=(CONFLUENT,) * 2,
        steps=(Step(2, 1, Do.SLOW, 14), Step(26, 1, Do.SLOW, 32)),
        change=POLL,
        times=SHORT_POLL,
    ),
    Trial(name="restart-java", cluster=KAFKA, clients=(CONFLUENT, JAVA), steps=RESTART, change=STATIC),
    Trial(name="restart-kafka-python", cluster=KAFKA, clients=(CONFLUENT, KAFKA_PYTHON), steps=RESTART, change=STATIC),
    Trial(name="kill-for-good", cluster=KAFKA, clients=(CONFLUENT,) * 3, steps=(Step(2, 1, Do.KILL, 0),), change=SESSION),
    Trial(name="kill-and-restart", cluster=KAFKA, clients=(CONFLUENT,) * 2, steps=(Step(2, 1, Do.KILL, 3),), change=STATIC),
    Trial(
        name="restart-cooperative",
        cluster=KAFKA,
        clients=(CONFLUENT,) * 3,
        steps=RESTART,
        change=Settings(assignor="cooperative-sticky"),
    ),
)
