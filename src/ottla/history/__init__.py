"""The history of consumer groups, from whatever evidence there is (docs/history.md):

    import ottla.history

    groups = ottla.history.read(broker_logs=["server.log*"], client_logs=["worker-*.log"], since="2h")
    for rebalance in groups["orders"].rebalances:
        print(rebalance.generation, rebalance.verdict.cause, rebalance.verdict.planned)
    for incident in groups.incidents:
        print(incident.kind, incident.groups, incident.culprits)

This module loads nothing heavy: its names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.history.group_history import GroupHistory as GroupHistory
    from ottla.history.group_history import Rebalance as Rebalance
    from ottla.history.incidents import Incident as Incident
    from ottla.history.incidents import IncidentKind as IncidentKind
    from ottla.history.reading import Groups as Groups
    from ottla.history.reading import read as read
    from ottla.history.sources.evidence import SourceError as SourceError

_LAZY = {
    "GroupHistory": "group_history",
    "Groups": "reading",
    "Incident": "incidents",
    "IncidentKind": "incidents",
    "Rebalance": "group_history",
    "SourceError": "sources.evidence",
    "read": "reading",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"ottla.history.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'ottla.history' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
