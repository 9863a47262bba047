"""How often the diagnosis should be right, and whether it is: the aims of the page and of its test."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ottla.testing.incidents.scoring import Scored, figures, is_said_by_broker_log

Choice = Callable[[Scored], bool]


class Aim(NamedTuple):
    """A share that should be reached with one set of sources, of the verdicts that `chosen` holds for."""

    name: str
    sources: str
    figure: str
    wanted: float
    chosen: Choice


def _caused(scored: Scored) -> bool:
    return scored.label.is_action


def _told(scored: Scored) -> bool:
    return _caused(scored) and is_said_by_broker_log(scored.incident, scored.label)


def _not_told(scored: Scored) -> bool:
    return _caused(scored) and not is_said_by_broker_log(scored.incident, scored.label)


def _any(_scored: Scored) -> bool:
    return True


AIMS: Final = (
    Aim("own events: right", "own events", "right", 0.99, _caused),
    Aim("broker log, where it can tell: right", "broker log", "right", 0.95, _told),
    Aim("broker log, where it cannot: the cause is among the candidates", "broker log", "holds", 0.99, _not_told),
    Aim("offsets topic: right", "offsets topic", "right", 0.80, _caused),
    Aim("broker log + client logs: right", "broker log + client logs", "right", 0.97, _caused),
    Aim("all sources: right of those that say high", "all", "high_right", 0.95, _any),
    Aim("broker log: right of those that say high", "broker log", "high_right", 0.95, _any),
    Aim("offsets topic: right of those that say high", "offsets topic", "high_right", 0.95, _any),
    Aim("client logs: right of those that say high", "client logs", "high_right", 0.95, _any),
)


class Reached(NamedTuple):
    """What was measured for an aim; None where there is nothing to measure it on."""

    aim: Aim
    share: float | None
    total: int

    @property
    def is_met(self) -> bool:
        """Whether the aim is reached."""
        return self.share is None or self.share >= self.aim.wanted


def reached(measured: Iterable[tuple[str, Sequence[Scored]]]) -> list[Reached]:
    """Each aim with what was measured, from the verdicts of each set of sources."""
    by_sources = dict(measured)
    found = []
    for aim in AIMS:
        chosen = figures(each for each in by_sources.get(aim.sources, ()) if aim.chosen(each))
        count = chosen.high if aim.figure == "high_right" else chosen.count
        found.append(Reached(aim, getattr(chosen, aim.figure), count))
    return found
