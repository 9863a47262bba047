"""How many rebalances of a group a test expects: have they come, are there more, and what to say of it."""

from collections.abc import Callable, Sequence

from ottla.history.group_history import Rebalance
from ottla.history.story.sentences import counted


class Expectation:
    """Rebalances that begin after this object was made: so many, and so many of them not planned; None: any number.

    `rebalances_now` gives all of the group's until now, `group_in_words` says how the group came to be as it is.
    """

    def __init__(
        self,
        group: str,
        count: int | None,
        unplanned: int | None,
        *,
        rebalances_now: Callable[[], Sequence[Rebalance]],
        group_in_words: Callable[[], str],
    ) -> None:
        self._count = count
        self._unplanned = unplanned
        self._rebalances_now = rebalances_now
        self._group_in_words = group_in_words
        self._before = len(rebalances_now())
        wanted = [counted(count, "rebalance")] if count is not None else []
        wanted += [f"{unplanned} unplanned"] if unplanned is not None else []
        self._text = f"expected {' and '.join(wanted)} of group {group}"

    def has_come(self) -> bool:
        """Whether at least as many have begun as are expected, and the last one has ended."""
        inside = self._inside()
        is_open = bool(inside) and inside[-1].outcome == "open"
        return len(inside) >= (self._count or 0) and _unplanned(inside) >= (self._unplanned or 0) and not is_open

    def in_words(self) -> str:
        """What is expected and what came, with the group's rebalances."""
        inside = self._inside()
        return f"{self._text}. {len(inside)} began, {_unplanned(inside)} of them unplanned. {self._group_in_words()}"

    def check(self) -> None:
        """Raise AssertionError unless exactly as many have begun as are expected."""
        inside = self._inside()
        if self._count not in (None, len(inside)) or self._unplanned not in (None, _unplanned(inside)):
            raise AssertionError(self.in_words())

    def _inside(self) -> Sequence[Rebalance]:
        return self._rebalances_now()[self._before :]


def _unplanned(rebalances: Sequence[Rebalance]) -> int:
    return sum(each.verdict.planned is False for each in rebalances)
