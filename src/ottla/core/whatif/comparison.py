"""Two replays side by side: with the recorded settings and with others. Which rebalances are gone, which are new, what it costs."""

from dataclasses import dataclass

from ottla.core.whatif.behaviour import GroupBehaviour
from ottla.core.whatif.outcome import Outcome, ReplayedRebalance, outcome
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import RECORDED_DEFAULTS, Settings, apply_settings
from ottla.core.whatif.warnings import warnings


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
