"""What was done on a day, to whom and when, and what an operator should read about it. Only the scorer reads it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(slots=True, kw_only=True)
class Step:
    """What one part of an action causes in one group between two times (milliseconds since 1970).

    causes: the right ones; none: nothing should happen. also: further rebalances may have these. is_required: there is a rebalance, or
    one that was avoided; if not, it depends on the client, or on what else happens.
    """

    group: str
    from_ms: int
    to_ms: int
    causes: tuple[str, ...]
    also: tuple[str, ...] = ()
    is_required: bool = True

    def tolerates(self, cause: str) -> bool:
        """Whether a rebalance of this step may have the cause."""
        return cause in self.causes or cause in self.also


@dataclass(slots=True, kw_only=True)
class Action:
    """One action: its kind, the kind of incident that an operator would call it, the members that it happened to, and its steps."""

    kind: str
    incident: str
    planned: bool
    culprits: tuple[str, ...]
    from_ms: int
    to_ms: int = 0
    steps: list[Step] = field(default_factory=list)
    failure: str = ""

    def groups(self) -> list[str]:
        """The groups that it happens to."""
        return sorted({step.group for step in self.steps})


@dataclass(slots=True, kw_only=True)
class Day:
    """The ledger of a day. skews_s: by the name of a member, how far its clock is ahead. disturbed: times when the machine stood still."""

    seed: int
    broker: str
    from_ms: int
    to_ms: int = 0
    skews_s: dict[str, int] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    disturbed: list[tuple[int, int]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """As JSON, an action a line."""
        named = asdict(self)
        actions = ",\n".join(json.dumps(action) for action in named.pop("actions"))
        path.write_text(f'{json.dumps(named)[:-1]}, "actions": [\n{actions}\n]}}\n')

    @classmethod
    def read(cls, path: Path) -> Self:
        """The ledger that was written."""
        named: dict[str, Any] = json.loads(path.read_text())
        actions = [_action(each) for each in named.pop("actions")]
        disturbed = [(first, last) for first, last in named.pop("disturbed")]
        return cls(**named, disturbed=disturbed, actions=actions)

    def steps_at(self, group: str, first_ms: int, last_ms: int) -> Sequence[tuple[Action, Step]]:
        """The steps of a group that overlap this time."""
        return [
            (action, step)
            for action in self.actions
            for step in action.steps
            if step.group == group and step.from_ms <= last_ms and first_ms <= step.to_ms
        ]


def _action(named: dict[str, Any]) -> Action:
    steps = [Step(**(step | {"causes": tuple(step["causes"]), "also": tuple(step["also"])})) for step in named.pop("steps")]
    return Action(**(named | {"culprits": tuple(named["culprits"])}), steps=steps)
