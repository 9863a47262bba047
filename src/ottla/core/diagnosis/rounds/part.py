"""What one clock says about one rebalance, from its first trigger to its stored assignment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from ottla.core.diagnosis.evidence.model import CommitSpan, Evidence, Kind, Source
from ottla.core.model import TopicPartition

SOURCE_RANK: Final = {source: rank for rank, source in enumerate(Source)}
"""The most informative source has rank 0."""


class Stage(IntEnum):
    """How far the rebalance is: members came or went; a trigger was seen; the generation is formed; the assignment is stored."""

    COLLECTING = 0
    TRIGGERED = 1
    FORMED = 2
    ENDED = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """The evidence of one clock about one rebalance, or (`is_avoided`) about one that did not happen.

    `generation`: the one that it formed, with those of KIP-848 bumps before it in `generations`; `old_generation`: the one before it.
    `context`: what came just before and belongs to no rebalance (coordinator moves, conversions). `commits`: since the part before.
    """

    clock: str
    source: Source
    stage: Stage = Stage.COLLECTING
    is_avoided: bool = False
    old_generation: int | None = None
    generations: list[int] = field(default_factory=list)
    items: list[Evidence] = field(default_factory=list)
    context: list[Evidence] = field(default_factory=list)
    commits: Mapping[TopicPartition, CommitSpan] = field(default_factory=dict)
    formed_ms: int | None = None
    is_emptied: bool = False
    is_interrupted: bool = False

    @property
    def generation(self) -> int | None:
        """The generation that it formed, or would have formed."""
        if self.generations:
            return self.generations[-1]
        return None if self.old_generation is None else self.old_generation + 1

    @property
    def started_ms(self) -> int:
        """When the first member came or went, or the first trigger was seen."""
        return self.items[0].at_ms

    @property
    def ended_ms(self) -> int | None:
        """When the assignment was stored, or the group became empty; None where it never came to that."""
        return self.items[-1].at_ms if self.stage is Stage.ENDED else None

    def of_kind(self, *kinds: Kind) -> list[Evidence]:
        """The items of these kinds, in their order."""
        return [item for item in self.items if item.kind in kinds]
