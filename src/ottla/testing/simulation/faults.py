"""What goes wrong in a simulation: processes freeze, crash, leave and join, topics grow, brokers stop, coordinators move, clocks jump."""

from dataclasses import replace
from random import Random

from ottla.core.groups.commands import DeleteGroup, OffsetCommit, OffsetFetch, OffsetToCommit, Request
from ottla.testing.simulation.conditions import Conditions
from ottla.testing.simulation.consumers import Consumers
from ottla.testing.simulation.member import GROUP_ID, Process
from ottla.testing.simulation.simulated_broker import SimulatedBroker
from ottla.testing.simulation.trace import Trace

LEAVE_REASONS = (None, "the consumer is being closed", "consumer poll timeout has expired.", "member was removed by an admin")
STANDALONE = "standalone"
CLOCK_JUMPS_AFTER_MS_MAX = 60_000
HOUR_MS = 60 * 60 * 1000


class Faults:
    """Injects faults at random times, as long as the conditions have them. `clock_rng`: for jumps of the time of day."""

    def __init__(self, conditions: Conditions, broker: SimulatedBroker, consumers: Consumers, trace: Trace, *, clock_rng: Random) -> None:
        self._conditions = conditions
        self._rng = conditions.rng
        self._events = conditions.events
        self._broker = broker
        self._consumers = consumers
        self._trace = trace
        self._clock_rng = clock_rng

    def inject(self) -> None:
        """Inject a random fault, and schedule the next one while faults are enabled."""
        if not self._conditions.has_faults:
            return
        alive = self._consumers.alive
        what = self._rng.choice(("freeze", "freeze", "crash", "leave", "join", "twin", "topics", "grow", "broker", "move", "standalone"))
        member = self._rng.choice(alive) if alive else None
        self._trace.line(f"fault: {what} {member.config.name if member else ''}")
        if what == "broker":
            self._broker.stop()
        elif what == "move":
            self._broker.move_coordinator()
        elif what == "standalone":
            self._standalone()
        elif what == "grow":
            topic = self._rng.choice(("flights", "weather"))
            self._consumers.partitions = {**self._consumers.partitions, topic: self._consumers.partitions[topic] + 1}
        elif what == "join":
            self._consumers.add(100 + self._events.scheduled)
        elif member is not None:
            self._disturb(member, what)
        self._events.later(self._rng.randrange(500, 8_000), self.inject)

    def jump_clock_later(self) -> None:
        """Schedule the next jump of the clock."""
        self._events.later(self._clock_rng.randrange(CLOCK_JUMPS_AFTER_MS_MAX), self._jump_clock)

    def _jump_clock(self) -> None:
        """Set the time of day forward or back, which must not affect timers."""
        if self._conditions.has_faults:
            self._broker.shell.time_of_day_offset_ms += self._clock_rng.choice((-HOUR_MS, HOUR_MS))
            self._trace.line(f"the time of day is {self._broker.shell.time_of_day_offset_ms} ms ahead")
            self.jump_clock_later()

    def _disturb(self, member: Process, what: str) -> None:
        if what == "freeze":
            member.frozen_until_ms = self._events.now_ms + self._rng.randrange(1_000, 15_000)
        elif what == "leave":
            member.leave(self._rng.choice(LEAVE_REASONS))
        elif what == "topics":
            member.topics = ("flights",) if len(member.topics) > 1 else ("flights", "weather")
            member.config = replace(member.config, protocols=self._rng.choice(self._consumers.protocols))
            member.join()
        elif what == "twin" and member.config.instance_id is not None:
            self._consumers.start_process(member.config)
        elif what in ("crash", "twin"):
            member.crash()
            if self._rng.random() < 0.7:
                self._events.later(self._rng.randrange(10_000), lambda: self._consumers.start_process(member.config))

    def _standalone(self) -> None:
        """A consumer that is not a member commits and fetches; sometimes its group is deleted."""
        offset = OffsetToCommit(topic="flights", partition=0, offset=self._consumers.next_offset(), leader_epoch=-1, metadata=None)
        requests: list[Request] = [
            OffsetCommit(
                reply_to=0,
                group_id=STANDALONE,
                generation=-1,
                member_id="",
                instance_id=None,
                retention_ms=-1,
                knows_group_errors=True,
                offsets=(offset,),
            ),
            OffsetFetch(reply_to=0, group_id=STANDALONE, topics=None, require_stable=False),
            OffsetFetch(reply_to=0, group_id=GROUP_ID, topics=None, require_stable=False),
        ]
        if self._conditions.chance(0.3):
            requests.append(DeleteGroup(reply_to=0, group_id=STANDALONE))
        for request in requests:
            self._broker.deliver(replace(request, reply_to=self._broker.expect_reply()))
