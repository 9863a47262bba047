"""What other settings would have changed: the recorded group replayed with both, the two compared, and the cheapest settings searched for.

How well the replay with the recorded settings agrees with what was recorded is said with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from ottla.history.rounds.assembly import complete_by_group
from ottla.history.sources.evidence import Evidence
from ottla.history.whatif.behaviour import ActionKind, GroupBehaviour, Process
from ottla.history.whatif.outcome import Outcome, ReplayedRebalance, outcome
from ottla.history.whatif.reconstruction import reconstruct
from ottla.history.whatif.replay import replay
from ottla.history.whatif.settings import RECORDED_DEFAULTS, Settings, apply_settings
from ottla.history.whatif.warnings import warnings

TOLERANCE_MS: Final = 3_000
"""A rebalance is reproduced if the replay has one that begins at most this much earlier or later."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Recorded rebalances, those that the replay has too, and the times of those that only one side has."""

    recorded: int
    reproduced: int
    missing_ms: tuple[int, ...]
    extra_ms: tuple[int, ...]

    @property
    def is_complete(self) -> bool:
        """Whether both sides have the same rebalances."""
        return not self.missing_ms and not self.extra_ms


def agreement(recorded_ms: Sequence[int], replayed: Outcome) -> Agreement:
    """Compare the start times of the recorded rebalances with a replay's, in order; each is matched at most once."""
    replayed_ms = [each.at_ms for each in replayed.rebalances]
    missing, extra = [], []
    reproduced = at = 0
    for start_ms in sorted(recorded_ms):
        while at < len(replayed_ms) and replayed_ms[at] < start_ms - TOLERANCE_MS:
            extra.append(replayed_ms[at])
            at += 1
        if at < len(replayed_ms) and replayed_ms[at] <= start_ms + TOLERANCE_MS:
            reproduced += 1
            at += 1
        else:
            missing.append(start_ms)
    return Agreement(len(recorded_ms), reproduced, tuple(missing), (*extra, *replayed_ms[at:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`gone`: rebalances of `before` that nothing in `after` corresponds to; `new`: the reverse. Warnings are sentences."""

    settings: Settings
    before: Outcome
    after: Outcome
    gone: tuple[ReplayedRebalance, ...]
    new: tuple[ReplayedRebalance, ...]
    warnings: tuple[str, ...]


def outcome_with(behaviour: GroupBehaviour, settings: Settings, recorded: Settings = RECORDED_DEFAULTS) -> Outcome:
    """What the group would have done with these settings."""
    changed = apply_settings(behaviour, settings, recorded)
    return outcome(changed, replay(changed))


def compare(behaviour: GroupBehaviour, settings: Settings, *, recorded: Settings = RECORDED_DEFAULTS) -> Comparison:
    """Replay with the recorded settings and with `settings`."""
    before = outcome_with(behaviour, Settings(), recorded)
    after = outcome_with(behaviour, settings, recorded)
    return Comparison(
        settings=settings,
        before=before,
        after=after,
        gone=_without(before, after),
        new=_without(after, before),
        warnings=warnings(behaviour, settings, before=before, after=after, recorded=recorded),
    )


def _without(these: Outcome, others: Outcome) -> tuple[ReplayedRebalance, ...]:
    found = {key for each in others.rebalances for key in each.keys}
    return tuple(each for each in these.rebalances if not each.keys & found)


CANDIDATES_MAX: Final = 6
"""Values of one setting that are tried, besides the recorded one."""
MARGIN: Final = 1.25
"""How much longer a timeout is than the absence that it has to outlast."""
STEP_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Option:
    """Settings, what they come to, and whether they meet the goal."""

    settings: Settings
    outcome: Outcome
    per_hour: float
    is_enough: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`front`: each option costs more than the one before it and leaves fewer unplanned rebalances."""

    front: tuple[Option, ...]
    tried: int

    @property
    def best(self) -> Option | None:
        """The cheapest option that meets the goal."""
        return next((option for option in self.front if option.is_enough), None)


def search(behaviour: GroupBehaviour, *, at_most: float, recorded: Settings = RECORDED_DEFAULTS) -> SearchResult:
    """Try the candidates, the cheapest first, until the goal is met. `at_most`: unplanned rebalances an hour.

    The cost: first the number of settings that change, then the sum of the timeouts.
    """
    front: list[Option] = []
    tried = 0
    for settings in sorted(_candidates(behaviour), key=_cost):
        found = outcome_with(behaviour, settings, recorded)
        tried += 1
        per_hour = found.unplanned / behaviour.hours
        if not front or found.unplanned < front[-1].outcome.unplanned:
            front.append(Option(settings, found, per_hour, per_hour <= at_most))
            if front[-1].is_enough:
                break
    return SearchResult(tuple(front), tried)


def _candidates(behaviour: GroupBehaviour) -> Iterable[Settings]:
    restarts = [length for process in behaviour.processes for length in _restart_lengths(process)]
    silences = _lengths(behaviour.processes, ActionKind.SILENCE)
    gaps = _lengths(behaviour.processes, ActionKind.POLL_GAP)
    # Static members outlast a restart by their session. A silent process does not poll either.
    sessions = _values(silences + restarts, [each.session_timeout_ms for each in behaviour.processes])
    polls = _values(gaps + sorted(silences)[-1:], [each.rebalance_timeout_ms for each in behaviour.processes])
    has_restarts = any(_restart_lengths(each) and each.instance_id is None for each in behaviour.processes)
    for session_ms, poll_ms, is_static in product([None, *sessions], [None, *polls], [None, True] if has_restarts else [None]):
        yield Settings(session_timeout_ms=session_ms, max_poll_interval_ms=poll_ms, is_static=is_static)


def _cost(settings: Settings) -> tuple[int, int]:
    return len(settings.texts()), (settings.session_timeout_ms or 0) + (settings.max_poll_interval_ms or 0)


def _values(lengths_ms: Iterable[int], recorded_ms: Iterable[int]) -> list[int]:
    """Timeouts that outlast one more of the lengths each, above all that are recorded; evenly chosen where they are many."""
    above_ms = max(recorded_ms, default=0)
    rounded = sorted({round(length * MARGIN) // STEP_MS * STEP_MS + STEP_MS for length in lengths_ms})
    values = [value for value in rounded if value > above_ms]
    if len(values) <= CANDIDATES_MAX:
        return values
    return sorted({values[at * (len(values) - 1) // (CANDIDATES_MAX - 1)] for at in range(CANDIDATES_MAX)})


def _lengths(processes: Iterable[Process], kind: ActionKind) -> list[int]:
    actions = (action for process in processes for action in process.actions)
    return [action.length_ms + action.uncertain_ms for action in actions if action.kind is kind and action.until_ms is not None]


def _restart_lengths(process: Process) -> list[int]:
    pairs = zip(process.actions, process.actions[1:], strict=False)
    ends = (ActionKind.CLOSE, ActionKind.CRASH)
    return [after.at_ms - before.at_ms for before, after in pairs if before.kind in ends and after.kind is ActionKind.START]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One of `comparison` and `search` is there: what the settings change, or what was found."""

    behaviour: GroupBehaviour
    agreement: Agreement
    comparison: Comparison | None = None
    search: SearchResult | None = None


def evidence_of_group(group: str, evidence: Iterable[Evidence]) -> list[Evidence]:
    """What of the evidence is about this group, also where a client names neither group nor member."""
    return complete_by_group(evidence).get(group, [])


def predict(
    group: str,
    evidence: Iterable[Evidence],
    settings: Settings,
    recorded: Settings = RECORDED_DEFAULTS,
    *,
    since_ms: int | None = None,
) -> Prediction:
    """What `group` would have done with `settings`; evidence may be of several groups. Raises ValueError where it allows no replay.

    Rebalances before `since_ms` do not count.
    """
    behaviour = reconstruct(group, evidence_of_group(group, evidence), recorded, since_ms=since_ms)
    found = compare(behaviour, settings, recorded=recorded)
    return Prediction(behaviour=behaviour, agreement=agreement(behaviour.recorded_ms, found.before), comparison=found)


def find_settings(
    group: str,
    evidence: Iterable[Evidence],
    *,
    at_most: float,
    recorded: Settings = RECORDED_DEFAULTS,
    since_ms: int | None = None,
) -> Prediction:
    """Settings with which `group` has at most so many unplanned rebalances an hour. Raises ValueError as `predict` does."""
    behaviour = reconstruct(group, evidence_of_group(group, evidence), recorded, since_ms=since_ms)
    before = outcome_with(behaviour, Settings(), recorded)
    found = search(behaviour, at_most=at_most, recorded=recorded)
    return Prediction(behaviour=behaviour, agreement=agreement(behaviour.recorded_ms, before), search=found)
