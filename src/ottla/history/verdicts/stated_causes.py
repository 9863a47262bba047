"""What sources say about a cause in so many words, as findings: one code is nearly certain, several candidates are left open."""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Evidence
from ottla.history.verdicts.rule import Confidence, Finding, Weights

_CODES: Final = {cause.value: cause for cause in Cause} | {"ADMIN_REMOVE": Cause.ADMIN}

_OPEN_IN_DEPARTURES: Final[Weights] = {Cause.RESTART_DYNAMIC: 0.05, Cause.ASSIGNOR_CHANGE: 0.02, Cause.MIGRATION: 0.02}
_OPEN_ELSEWHERE: Final[Weights] = {Cause.COORDINATOR_MOVE: 0.05, Cause.ASSIGNOR_CHANGE: 0.05, Cause.MIGRATION: 0.05}
"""A line about one member seldom excludes these."""

_IMPLIED: Final[Mapping[Cause, Weights]] = {
    Cause.LEAVE_CLOSE: {Cause.RESTART_DYNAMIC: 1.0, Cause.ASSIGNOR_CHANGE: 0.5},
    Cause.JOIN_NEW: {Cause.COLD_START: 1.0, Cause.RESTART_DYNAMIC: 1.0},
    Cause.TOPIC_CHANGE: {Cause.COORDINATOR_MOVE: 0.2},
}
"""What a line cannot tell from the cause that it names: a client that closes does not say that it will be started again."""


def stated_findings(items: Iterable[Evidence], *, of_departure: bool) -> list[Finding]:
    """One finding for each code, and for each set of candidates, of each source."""
    found: dict[tuple[str, ...], Finding] = {}
    for item in items:
        codes = (item.trigger,) if item.trigger in _CODES else item.candidates
        if codes and (item.source, *codes) not in found:
            causes = [_CODES[code] for code in codes if code in _CODES]
            if causes:
                found[item.source, *codes] = _finding(item, causes, _OPEN_IN_DEPARTURES if of_departure else _OPEN_ELSEWHERE)
    return list(found.values())


def _finding(item: Evidence, causes: list[Cause], is_open: Weights) -> Finding:
    weights = dict(is_open)
    if causes == [Cause.POLL_TIMEOUT]:
        weights.pop(Cause.RESTART_DYNAMIC, None)  # a member that says so was there to say it
    for cause in causes:
        weights |= _IMPLIED.get(cause, {})
    weights |= dict.fromkeys(causes, 1.0)
    confidence = Confidence.HIGH if len(causes) == 1 else Confidence.MEDIUM
    return Finding(f"{item.source}: {' or '.join(causes)}", item.source, weights, confidence)
