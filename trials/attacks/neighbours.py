"""Hostile neighbours: `python -m trials.attacks.neighbours SERVERS SEED SCALE` runs the attacks in random order.

The process ends with its input. It prints each attack's name when the attack is over.
"""

import random
import sys
from threading import Thread

from trials.attacks.catalog import ATTACKS
from trials.attacks.target import Target


def attack(servers: str, seed: int, scale: float) -> None:
    """Run every attack repeatedly."""
    rng = random.Random(seed)
    target = Target(servers, scale=scale)
    while True:
        for name in rng.sample(sorted(ATTACKS), len(ATTACKS)):
            ATTACKS[name](target)
            print(name, flush=True)


def main(servers: str, seed: str, scale: str) -> None:
    """Attack in a thread; end when an attack fails or the input ends."""
    attacking = Thread(target=attack, args=(servers, int(seed), float(scale)), daemon=True)
    attacking.start()
    for _line in sys.stdin:
        continue


if __name__ == "__main__":
    main(*sys.argv[1:])
