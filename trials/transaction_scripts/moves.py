"""What a script may do next: every transactional request, in every version, right and wrong, by weights."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from tests.support.clients.transaction_script import Script

Move = tuple[str, dict[str, Any]]
"""The name of a method of `Playing`, and its arguments."""
NOW_MS: Final = int(time.time() * 1000)
"""The time of all records, to both brokers."""
DELTAS: Final = (0,) * 8 + (-1, 1)
STEPS: Final = (12, 40)


class Playing(Script):
    """A script that can also go back to the producer that it was: a zombie, if another came meanwhile."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.patience_s = 3.0
        self.timestamp_ms = NOW_MS
        self._before: list[tuple[int, int, dict[int, int]]] = []

    def group(self) -> str:
        """The script's own group."""
        return f"{self.name}-group"

    def init_as(self, version: int, known: str, timeout_ms: int) -> None:
        """InitProducerId with nothing, with what the client has, or with something else."""
        self._before.append((self.id, self.epoch, dict(self.sequences)))
        producer = {
            "nothing": (-1, -1),
            "current": (self.id, self.epoch),
            "stale": (self.id, max(0, self.epoch - 1)),
            "ahead": (self.id, self.epoch + 1),
            "other": (self.id + 12345, 0),
        }[known]
        self.init(version, timeout_ms=timeout_ms, producer_id=producer[0], epoch=producer[1])

    def become_a_zombie(self) -> None:
        """Go on as the producer before the last InitProducerId, whoever is current now."""
        if self._before:
            now = self.id, self.epoch, dict(self.sequences)
            producer_id, epoch, sequences = self._before.pop()
            if producer_id >= 0:
                self._before.append(now)
                self.continue_as(producer_id, epoch)
                self.sequences.update(sequences)

    def rest(self) -> None:
        """Wait until no end is under way."""
        self.describe()


def _choose(rng: Random, *choices: Any) -> Any:
    return rng.choice(choices)


def _init(rng: Random) -> Move:
    known = _choose(rng, "nothing", "nothing", "nothing", "current", "current", "stale", "ahead", "other")
    return "init_as", {"version": rng.randrange(3, 6), "known": known, "timeout_ms": _choose(rng, 600_000, 600_000, 300_000, 0, 900_001)}


def _add(rng: Random) -> Move:
    bad = rng.random() < 0.1
    return "add", {
        "version": rng.randrange(4),
        "partition": _choose(rng, 0, 1, 99 if bad else 0),
        "topic": _choose(rng, None, "no-such-topic", "__consumer_offsets") if bad else None,
        "epoch_delta": rng.choice(DELTAS),
        "id_delta": _choose(rng, *(0,) * 12, 12345),
    }


def _ask_as_broker(rng: Random) -> Move:
    partitions = rng.sample((0, 1), rng.randint(1, 2))
    return "ask_as_broker", {
        "version": rng.randrange(4, 6),
        "verifies": rng.random() < 0.7,
        "partitions": partitions,
        "epoch_delta": rng.choice(DELTAS),
        "id_delta": _choose(rng, *(0,) * 12, 12345),
    }


def _produce(rng: Random) -> Move:
    return "produce", {
        "version": rng.choice((3, 7, 9, 10, 11, 11, 12, 12, 12)),
        "partition": rng.randrange(2),
        "epoch_delta": rng.choice(DELTAS),
        "sequence_delta": _choose(rng, *(0,) * 9, -1, 1, 3),
        "is_transactional": rng.random() > 0.05,
    }


def _add_offsets(rng: Random) -> Move:
    return "add_offsets", {"version": rng.randrange(5), "group": True}


def _commit_offsets(rng: Random) -> Move:
    stranger = rng.random() < 0.1
    return "commit_offsets", {
        "version": rng.randrange(6),
        "group": True,
        "generation": 3 if stranger else -1,
        "member": "nobody" if stranger else "",
        "epoch_delta": rng.choice(DELTAS),
    }


def _end(rng: Random) -> Move:
    return "end", {
        "version": rng.choice((0, 1, 2, 3, 4, 5, 5, 5)),
        "commits": rng.random() < 0.6,
        "behind": _choose(rng, *(0,) * 9, 1, 1, -1),
        "id_delta": _choose(rng, *(0,) * 15, 12345),
    }


def _write_marker(rng: Random) -> Move:
    version = rng.randrange(1, 3)
    return "write_marker", {
        "version": version,
        "commits": rng.random() < 0.5,
        "epoch_delta": _choose(rng, 0, 0, 0, -1),
        "coordinator_epoch": _choose(rng, 0, 0, 0, -1),
        "partition": rng.randrange(2),
        "bumped": rng.choice((0, 2)) if version == 2 else 0,
    }


def _plain(name: str, weight_arguments: Callable[[Random], dict[str, Any]] = lambda _: {}) -> Callable[[Random], Move]:
    return lambda rng: (name, weight_arguments(rng))


MOVES: Final[Sequence[tuple[int, Callable[[Random], Move]]]] = (
    (3, _init),
    (6, _add),
    (2, _ask_as_broker),
    (12, _produce),
    (3, _add_offsets),
    (6, _commit_offsets),
    (9, _end),
    (1, _write_marker),
    (3, _plain("fetch_offsets", lambda rng: {"stable": rng.random() < 0.5, "group": True})),
    (1, _plain("commit_plainly", lambda rng: {"offset": rng.randrange(100), "group": True})),
    (1, _plain("delete_offset", lambda _: {"group": True})),
    (2, _plain("describe")),
    (1, _plain("list")),
    (2, _plain("describe_producers")),
    (2, _plain("become_a_zombie")),
)


def script_of(seed: int) -> list[Move]:
    """The moves of a seed. After what may end a transaction, the script waits until the end is carried out."""
    rng = Random(seed)
    moves: list[Move] = [("init_as", {"version": 4, "known": "nothing", "timeout_ms": 600_000})]
    weights = [weight for weight, _ in MOVES]
    for _ in range(rng.randint(*STEPS)):
        (make,) = rng.choices([make for _, make in MOVES], weights)
        moves.append(make(rng))
        if moves[-1][0] in ("end", "init_as"):
            moves.append(("rest", {}))
    return [*moves, ("init_as", {"version": 4, "known": "nothing", "timeout_ms": 600_000}), ("rest", {})]


def play(script: Playing, move: Move) -> None:
    """Do one move; `script.said` has the answer then."""
    name, arguments = move
    if arguments.get("group") is True:
        arguments = {**arguments, "group": script.group()}
    partial(getattr(script, name), **arguments)()
