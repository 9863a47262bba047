"""How bad the simulated world is: whether faults happen, and how long messages take."""

import random

from ottla.testing.simulation.event_queue import EventQueue


class Conditions:
    """Chance and time of one run. Without `has_faults` nothing fails any more, and messages are quick."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.events = EventQueue()
        self.has_faults = True

    def chance(self, probability: float) -> bool:
        """Whether a fault of this probability happens."""
        return self.has_faults and self.rng.random() < probability

    def latency_ms(self) -> int:
        """How long the next message takes."""
        return self.rng.randrange(500, 9_000) if self.chance(0.03) else self.rng.randrange(1, 20)
