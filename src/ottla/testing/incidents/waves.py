"""Incidents of a whole broker: a setting or a restart that happens to many groups at once."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import Disconnected, RawClient
from ottla.testing.incidents.actions.set_up import set_up
from ottla.testing.incidents.group_run import GroupRun, NotStable
from ottla.testing.incidents.members.raw_consumer import coordinator_of

OFFSETS_TOPIC = "__consumer_offsets"
SMALL_BYTES = 420
"""Less than the record of a group with two or more members, more than a commit of one partition."""
LARGE_BYTES = 1_048_588
SIZE_MAX, NO_SIZE_MAX = 2, (1 << 31) - 1
ERROR_S, AFTER_ERROR_S = 3, 5
RECOVERY_S = 14
LOADING_SECONDS_MAX = 60
NOT_YET = frozenset((14, 15, 16))  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR


def start_groups(runs: Sequence[GroupRun]) -> list[GroupRun]:
    """Set up all groups, and wait until the last is stable; return those that are."""
    with ThreadPoolExecutor(len(runs)) as pool:
        are_stable = list(pool.map(_set_up, runs))
    return [run for run, is_stable in zip(runs, are_stable, strict=True) if is_stable]


def _set_up(run: GroupRun) -> bool:
    positions = range(len(run.plan.clients))
    try:
        set_up(run, positions[:-1] if run.plan.cause == Cause.STORE_ERROR and len(positions) > 1 else positions)
    except NotStable:
        return False
    return True


def fail_to_store(runs: Sequence[GroupRun]) -> None:
    """One member more joins each group while its new assignment is too large for the offsets topic; a client that gives up may leave."""
    world = runs[0].world
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.caused(Cause.STORE_ERROR, also={Cause.JOIN_NEW, Cause.LEAVE_CLOSE}))
        world.set_topic_config(OFFSETS_TOPIC, "max.message.bytes", str(SMALL_BYTES))
        for run in runs:
            run.start(len(run.plan.clients) - 1)
        time.sleep(ERROR_S)
        world.set_topic_config(OFFSETS_TOPIC, "max.message.bytes", str(LARGE_BYTES))
        time.sleep(AFTER_ERROR_S)


def restart_broker(runs: Sequence[GroupRun], restart: Callable[[], None]) -> None:
    """The broker restarts with group.max.size = SIZE_MAX: larger groups must shrink, the others are loaded again."""
    with ExitStack() as stack:
        for run in runs:
            is_capacity = run.plan.cause == Cause.CAPACITY
            stack.enter_context(run.caused(run.plan.cause, is_certain=is_capacity))
        restart()
        time.sleep(RECOVERY_S)


def wait_until_loaded(servers: str, group: str) -> None:
    """Return when the group's coordinator has loaded it. Raises TimeoutError."""
    deadline = time.monotonic() + LOADING_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError, Disconnected), RawClient(coordinator_of(group, servers)) as client:
            if client.call(ApiKey.DESCRIBE_GROUPS, 0, groups=[group]).groups[0].error_code not in NOT_YET:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the coordinator of {group} has not loaded it")
