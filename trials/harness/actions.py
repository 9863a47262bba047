"""What happens in a trial and when: actions that a seed chooses by their weights, and actions that recur."""

import random
import time
from collections import Counter
from collections.abc import Callable

Action = Callable[[], object]


class Actions:
    """Chooses actions by weights; `counts` says how often each was done."""

    def __init__(self, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._rng = rng

    def do_one(self, **actions: tuple[Action, int]) -> None:
        """Do one of these: each with its weight, 0 for one that is not possible now."""
        (name,) = self._rng.choices(list(actions), [weight for _, weight in actions.values()])
        self.counts[name] += 1
        actions[name][0]()

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))


class Recurring:
    """An action that is due again and again, after a time between the two bounds (seconds) that the seed decides; at first at once."""

    def __init__(self, rng: random.Random, between_s: tuple[float, float], act: Action, *, is_due_at_once: bool = True) -> None:
        self._rng = rng
        self._between_s = between_s
        self._act = act
        self._next_s = time.monotonic()
        if not is_due_at_once:
            self._wait()

    def act_if_due(self) -> None:
        """Act when it is time, and count the time to the next action from the end of this one."""
        if time.monotonic() >= self._next_s:
            self._act()
            self._wait()

    def _wait(self) -> None:
        self._next_s = time.monotonic() + self._rng.uniform(*self._between_s)
