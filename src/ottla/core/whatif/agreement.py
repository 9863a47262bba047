"""How well a replay of the recorded settings reproduces the recorded rebalances: what a prediction for other settings rests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.core.whatif.outcome import Outcome

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
