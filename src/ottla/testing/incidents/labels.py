"""What is known of an incident because it was made: its causes with times, and which half of the corpus it belongs to."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from ottla.core.diagnosis.evidence.cause_codes import Cause

REBALANCE: Final = "rebalance"
AVOIDED: Final = "avoided"
MAKING: Final = "making"
"""Rules are written looking at this half only."""
MEASURING: Final = "measuring"
"""Published figures come from this half only."""

PLANNED: Final = frozenset(
    {
        Cause.COLD_START,
        Cause.JOIN_NEW,
        Cause.LEAVE_CLOSE,
        Cause.TOPIC_CHANGE,
        Cause.SUBSCRIPTION,
        Cause.ASSIGNOR_CHANGE,
        Cause.ADMIN,
        Cause.ENFORCED,
        Cause.MIGRATION,
        Cause.COOP_FOLLOWUP,
    }
)
AVOIDABLE: Final = frozenset(
    {
        Cause.RESTART_DYNAMIC,
        Cause.EXPIRE_HEARTBEAT,
        Cause.POLL_TIMEOUT,
        Cause.JOIN_TIMEOUT,
        Cause.SYNC_TIMEOUT,
        Cause.LEADER_REJOIN_SPURIOUS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRebalance:
    """What one step of an incident caused between two times (milliseconds since 1970).

    cause: of the first and, if there are several, of most rebalances of that time. also: causes that further ones may have, such as the
    second half of a cooperative rebalance. is_action: caused by the incident's action, not by its set-up. is_certain: there is one; if not,
    it depends on the client (a coordinator that moves).
    """

    from_ms: int
    to_ms: int
    cause: str
    also: tuple[str, ...]
    kind: str
    is_action: bool
    is_certain: bool
    planned: bool
    avoidable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of the corpus. `end_ms`: what happens to the group later is not labelled. action: what was done to the actor.

    actor: the member that it happened to, an index of `clients`.
    """

    id: str
    run: str
    cluster: str
    group: str
    protocol: str
    assignor: str
    clients: tuple[str, ...]
    actor: int
    cause: str
    action: str
    end_ms: int
    half: str
    rebalances: tuple[LabelledRebalance, ...]

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The incident that was written."""
        rebalances = tuple(LabelledRebalance(**(each | {"also": tuple(each["also"])})) for each in fields["rebalances"])
        return cls(**(fields | {"clients": tuple(fields["clients"]), "rebalances": rebalances}))


def halved(incidents: Iterable[Incident]) -> list[Incident]:
    """The incidents with their halves: alternating, in the order of a hash of their ids, within each cause and cluster."""
    counts: dict[tuple[str, str], int] = {}
    halves: dict[str, str] = {}
    everything = list(incidents)
    for incident in sorted(everything, key=lambda each: hashlib.sha256(each.id.encode()).digest()):
        place = (incident.cluster, incident.cause)
        counts[place] = counts.get(place, 0) + 1
        halves[incident.id] = MAKING if counts[place] % 2 else MEASURING
    return [Incident.from_dict(asdict(each) | {"half": halves[each.id]}) for each in everything]


def to_json(incidents: Iterable[Incident]) -> str:
    """The incidents as a JSON array, one a line."""
    return "[\n" + ",\n".join(json.dumps(asdict(each)) for each in incidents) + "\n]\n"


def from_json(text: str) -> list[Incident]:
    """What `to_json` wrote."""
    return [Incident.from_dict(each) for each in json.loads(text)]
