"""The trials: incidents that a setting changes, with each client library, on both brokers; and some that it does not change."""

from typing import Final

from ottla.core.whatif.settings import Settings
from ottla.testing.incidents.plan import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON
from ottla.testing.whatif_trials.trial import Do, MemberTimes, Step, Trial

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
