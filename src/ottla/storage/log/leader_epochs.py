"""A partition's leader epochs: which one writes now, and where each began. It writes no file; the log does.

Source: KIP-101, KIP-279; Kafka's `LeaderEpochFileCache`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.storage.checkpoints import EpochStart

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """The largest known epoch up to the one asked for, and the offset where the next one began; -1 and -1 when that is not known."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """`current` is written into each batch and only rises; `starts` are the epochs that have batches, oldest first."""

    __slots__ = ("current", "starts")

    def __init__(self, starts: Sequence[EpochStart] = (), *, current: int = 0) -> None:
        self.starts = list(starts)
        self.current = max(current, self.latest)

    @property
    def latest(self) -> int:
        """The epoch of the last batch; -1 without one."""
        return self.starts[-1].epoch if self.starts else NO_EPOCH

    def after_start(self, log_start_offset: int) -> list[EpochStart]:
        """`starts` without what lies wholly below the log's start; the epoch that holds it begins there."""
        above = [start for start in self.starts if start.start_offset > log_start_offset]
        holding = [start for start in self.starts if start.start_offset <= log_start_offset]
        return [holding[-1]._replace(start_offset=log_start_offset), *above] if holding else above

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch` ended, for a reader that wonders whether it has read what is gone (OffsetForLeaderEpoch)."""
        starts = self.starts if self.latest == self.current else [*self.starts, EpochStart(self.current, log_end_offset)]
        if epoch == NO_EPOCH or epoch > starts[-1].epoch:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == starts[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        known = [start.epoch for start in starts if start.epoch <= epoch]
        following = next(start for start in starts if start.epoch > epoch)
        return EpochEnd(known[-1] if known else epoch, following.start_offset)
