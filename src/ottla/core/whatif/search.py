"""Finds settings that meet a goal: at most so many unplanned rebalances an hour, with few changes and small values.

The candidates come from what was recorded: a session timeout is worth trying only where it outlasts one more of the recorded absences.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final

from ottla.core.whatif.behaviour import ActionKind, GroupBehaviour, Process
from ottla.core.whatif.comparison import outcome_with
from ottla.core.whatif.outcome import Outcome
from ottla.core.whatif.settings import RECORDED_DEFAULTS, Settings

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
    sessions = _values(_absences(behaviour.processes), [each.session_timeout_ms for each in behaviour.processes])
    polls = _values(_poll_gaps(behaviour.processes), [each.rebalance_timeout_ms for each in behaviour.processes])
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


def _absences(processes: Iterable[Process]) -> list[int]:
    """Silences, and times between the end of a process and its return (which matter to static members)."""
    processes = list(processes)
    silences = [
        action.length_ms + action.uncertain_ms
        for process in processes
        for action in process.actions
        if action.kind is ActionKind.SILENCE and action.until_ms is not None
    ]
    return silences + [length for process in processes for length in _restart_lengths(process)]


def _poll_gaps(processes: Iterable[Process]) -> list[int]:
    return [
        action.length_ms + action.uncertain_ms
        for process in processes
        for action in process.actions
        if action.kind is ActionKind.POLL_GAP and action.until_ms is not None
    ]


def _restart_lengths(process: Process) -> list[int]:
    pairs = zip(process.actions, process.actions[1:], strict=False)
    ends = (ActionKind.CLOSE, ActionKind.CRASH)
    return [after.at_ms - before.at_ms for before, after in pairs if before.kind in ends and after.kind is ActionKind.START]
