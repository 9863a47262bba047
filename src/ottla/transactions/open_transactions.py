"""The open transactions of one coordinator: how many, the oldest, and those whose timeout is over, without a walk through all ids."""

import heapq
from typing import Final

NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that never times out."""
_STALE_MAX: Final = 1_000
"""So many entries of ended transactions are kept, beside as many as there are open ones."""


class OpenTransactions:
    """Transactional ids with an open transaction, in the order in which those began; times in ms since 1970."""

    __slots__ = ("_began", "_deadlines")

    def __init__(self) -> None:
        self._began: dict[str, tuple[int, int]] = {}
        self._deadlines: list[tuple[int, str]] = []
        """A heap. Entries of transactions that have ended stay until their time, or until they are more than those of open ones."""

    def __len__(self) -> int:
        return len(self._began)

    @property
    def oldest_start_ms(self) -> int | None:
        """When the oldest one began; None when none is open."""
        return next(iter(self._began.values()))[0] if self._began else None

    def begin(self, transactional_id: str, *, start_ms: int, timeout_ms: int) -> None:
        """A transaction has begun."""
        self._began[transactional_id] = start_ms, timeout_ms
        if timeout_ms == NEVER_MS:
            return
        heapq.heappush(self._deadlines, (start_ms + timeout_ms, transactional_id))
        if len(self._deadlines) > 2 * len(self._began) + _STALE_MAX:
            self._deadlines = [(start + timeout, name) for name, (start, timeout) in self._began.items() if timeout != NEVER_MS]
            heapq.heapify(self._deadlines)

    def end(self, transactional_id: str) -> None:
        """A transaction is no longer open."""
        del self._began[transactional_id]

    def clear(self) -> None:
        """Forget all."""
        self._began.clear()
        self._deadlines.clear()

    def overdue(self, now_ms: int, count_max: int) -> list[str]:
        """The ids whose transaction is open for longer than its timeout: at most so many, those first whose time was over first."""
        found: dict[str, int] = {}
        while self._deadlines and self._deadlines[0][0] < now_ms and len(found) < count_max:
            deadline_ms, name = heapq.heappop(self._deadlines)
            began = self._began.get(name)
            if began is not None and sum(began) == deadline_ms:
                found[name] = deadline_ms
        for name, deadline_ms in found.items():  # they stay until they have ended: their abort may fail
            heapq.heappush(self._deadlines, (deadline_ms, name))
        return list(found)
