"""What happened without an action, since the machine was busy: sessions that ended, and a broker that lost its place in the cluster.

They are put into the ledger from the broker's own words.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.policy import LOSSES
from trials.day.actions import OF_BROKER
from trials.day.ledger import Action, Day, Step

TIME: Final = r"^\[(?P<time>[-0-9]+ [:0-9]+,[0-9]+)\].*?"
UNLOADED: Final = re.compile(TIME + r"\[GroupId=(?P<group>\S+)\] Unloading group metadata")
EXPIRED: Final = re.compile(
    TIME + r"(?:Member (?P<member>\S+) in group (?P<group>\S+) has failed"
    r"|\[GroupId (?P<consumer_group>\S+)\] Member (?P<consumer>\S+) fenced from the group because the member session expired)"
)
ACCIDENT: Final = "accident"
"""The kind of a session that ended by itself."""
OUTAGE: Final = "broker outage"
RETURN_MS: Final = 8_000
"""A member that lives has come back by then."""
FENCED_MS, RELOADED_MS = 3_000, 15_000
"""A broker stopped answering as long before it unloads its groups, and their members have come back as long after it."""


def add_accidents(day: Day, broker_log: Iterable[str]) -> None:
    """Add the accidents of the log that no action of the day explains. The log's times are local ones."""
    lines = list(broker_log)
    fenced: Action | None = None
    for found in filter(None, map(UNLOADED.match, lines)):
        at_ms, group = _at_ms(found), found["group"]
        if at_ms < day.to_ms and not any(action.incident == OUTAGE for action, _ in day.steps_at(group, at_ms, at_ms)):
            also = (Cause.LEADER_REJOIN_SPURIOUS,)
            from_ms, to_ms = at_ms - FENCED_MS, at_ms + RELOADED_MS
            if fenced is None or at_ms > fenced.to_ms:
                fenced = Action(kind="fenced_broker", incident=OUTAGE, planned=False, culprits=("broker",), from_ms=from_ms, to_ms=to_ms)
                day.actions.append(fenced)
            fenced.steps.append(Step(group=group, from_ms=from_ms, to_ms=to_ms, causes=OF_BROKER, also=also, is_required=False))
    for found in filter(None, map(EXPIRED.match, lines)):
        at_ms, group = _at_ms(found), found["group"] or found["consumer_group"]
        steps = day.steps_at(group, at_ms - 200, at_ms + 200)
        is_expected = any(action.failure or action.incident == OUTAGE or any(map(step.tolerates, LOSSES)) for action, step in steps)
        if is_expected or at_ms > day.to_ms:
            continue
        also = (Cause.LEADER_REJOIN_SPURIOUS,)
        step = Step(group=group, from_ms=at_ms - 200, to_ms=at_ms + RETURN_MS, causes=(Cause.EXPIRE_HEARTBEAT,), also=also)
        culprits = (found["member"] or found["consumer"],)
        action = Action(kind=ACCIDENT, incident="pause", planned=False, culprits=culprits, from_ms=step.from_ms, to_ms=step.to_ms)
        action.steps.append(step)
        day.actions.append(action)


def _at_ms(found: re.Match[str]) -> int:
    return int(datetime.strptime(found["time"], "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)
