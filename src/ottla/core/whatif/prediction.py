"""The whole way of a what-if: from a group's evidence to what other settings would have changed, and how far that can be trusted."""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.core.diagnosis.evidence.departed_members import complete_departures
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.diagnosis.rounds.attribution import by_group
from ottla.core.whatif.agreement import Agreement, agreement
from ottla.core.whatif.behaviour import GroupBehaviour
from ottla.core.whatif.comparison import Comparison, compare, outcome_with
from ottla.core.whatif.reconstruction import reconstruct
from ottla.core.whatif.search import SearchResult, search
from ottla.core.whatif.settings import RECORDED_DEFAULTS, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One of `comparison` and `search` is there: what the settings change, or what was found."""

    behaviour: GroupBehaviour
    agreement: Agreement
    comparison: Comparison | None = None
    search: SearchResult | None = None


def evidence_of_group(group: str, evidence: Iterable[Evidence]) -> list[Evidence]:
    """What of the evidence is about this group, also where a client names neither group nor member."""
    return by_group(complete_departures(list(evidence))).get(group, [])


def predict(group: str, evidence: Iterable[Evidence], settings: Settings, recorded: Settings = RECORDED_DEFAULTS) -> Prediction:
    """What `group` would have done with `settings`; evidence may be of several groups. Raises ValueError where it allows no replay."""
    behaviour = reconstruct(group, evidence_of_group(group, evidence), recorded)
    found = compare(behaviour, settings, recorded=recorded)
    return Prediction(behaviour=behaviour, agreement=agreement(behaviour.recorded_ms, found.before), comparison=found)


def find_settings(group: str, evidence: Iterable[Evidence], *, at_most: float, recorded: Settings = RECORDED_DEFAULTS) -> Prediction:
    """Settings with which `group` has at most so many unplanned rebalances an hour. Raises ValueError as `predict` does."""
    behaviour = reconstruct(group, evidence_of_group(group, evidence), recorded)
    before = outcome_with(behaviour, Settings(), recorded)
    found = search(behaviour, at_most=at_most, recorded=recorded)
    return Prediction(behaviour=behaviour, agreement=agreement(behaviour.recorded_ms, before), search=found)
