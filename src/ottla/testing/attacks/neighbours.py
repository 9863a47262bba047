"""Hostile neighbours: `python -m ottla.testing.attacks.neighbours SERVERS SEED SCALE` runs the attacks in random order.

It ends with its input. A process, so that the attacker's work is not the tester's. Each attack's name is printed when it is over.
"""

import random
import sys
from threading import Thread

from ottla.testing.attacks.catalog import ATTACKS
from ottla.testing.attacks.target import Target


def attack(servers: str, seed: int, scale: float) -> None:
    """Runs every attack again and again."""
    rng = random.Random(seed)
    target = Target(servers, scale=scale)
    while True:
        for name in rng.sample(sorted(ATTACKS), len(ATTACKS)):
            ATTACKS[name](target)
            print(name, flush=True)  # noqa: T201


def main(servers: str, seed: str, scale: str) -> None:
    """Attacks in a thread, and ends when the attack fails or the input ends."""
    attacking = Thread(target=attack, args=(servers, int(seed), float(scale)), daemon=True)
    attacking.start()
    for _line in sys.stdin:
        continue


if __name__ == "__main__":
    main(*sys.argv[1:])
