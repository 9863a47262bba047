"""A group as an operator finds it: four members of four clients, three of which keep making it rebalance, each in its own way."""

import time
from typing import Final

from ottla.testing.incidents.group_run import GroupRun, Plan

STEADY, SLOW, FROZEN, DEPLOYED = range(4)
CLIENTS: Final = ("java", "confluent", "aiokafka", "kafka-python")
PLAN: Final = Plan(id="trial", cause="", action="trial", protocol="classic", assignor="range", clients=CLIENTS, actor=SLOW, seed=4)
MAX_POLL_MS: Final = 8_000
QUIET_S: Final = 3.0


def start_trial(run: GroupRun) -> None:
    """Start the members, each with a client id of its own; the slow one has a short max.poll.interval.ms."""
    run.create_topics()
    for position in range(len(CLIENTS)):
        _start(run, position)
    run.wait_stable()


def make_trouble(run: GroupRun) -> None:
    """One is slower than its poll interval, one is frozen for longer than its session timeout, one is deployed again."""
    run.members[SLOW].do("sleep", seconds=MAX_POLL_MS / 1000 + 5)
    run.wait_stable(without=[SLOW])
    run.wait_stable()
    time.sleep(QUIET_S)
    run.members[FROZEN].freeze()
    run.wait_stable(without=[FROZEN])
    run.members[FROZEN].thaw()
    run.wait_stable()
    time.sleep(QUIET_S)
    run.members.pop(DEPLOYED).close()
    time.sleep(1)
    _start(run, DEPLOYED)
    run.wait_stable()
    time.sleep(QUIET_S)


def _start(run: GroupRun, position: int) -> None:
    max_poll_ms = MAX_POLL_MS if position == SLOW else 60_000
    run.start(position, client_id=f"worker-{CLIENTS[position]}", session_ms=6_000, max_poll_ms=max_poll_ms)
