"""One incident while it runs: starts the group's members, waits until they are stable, and writes down what was caused when."""

import random
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ottla.history.sources.evidence import Cause
from trials.incidents.corpus import AVOIDABLE, PLANNED, REBALANCE, Incident, LabelledRebalance
from trials.incidents.handles import Handle, RawConsumer, RawHandle, wait_until_divided
from trials.incidents.members.program import LOG_FORMATS, MemberSettings
from trials.incidents.world import World

STABLE_SECONDS_MAX = 45
SETTLED_S = 1.0
REJOINING = frozenset({"kafka-python", "confluent"})
"""Clients whose leader sometimes joins again right after a rebalance, with nothing changed."""
RESTARTS = frozenset({"restart", "rolling_restart", "change_assignor_dynamic"})
"""Java numbers the client ids that it makes itself: in the JVM that members share, one that starts again would have another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One incident to be made: all that is decided before it runs. `seed` decides the rest; the actor is the member that it happens to."""

    id: str
    cause: str
    action: str
    protocol: str
    assignor: str
    clients: tuple[str, ...]
    actor: int
    seed: int

    @property
    def actor_client(self) -> str:
        """The client library of the actor."""
        return self.clients[self.actor]


class NotStable(Exception):
    """The group did not become stable: the incident is not used."""


class GroupRun:
    """The members of one group by their place in the plan, its topics (name to number of partitions), and the labels so far."""

    def __init__(self, plan: Plan, world: World, *, run: str, cluster: str) -> None:
        self.plan = plan
        self.world = world
        self.random = random.Random(plan.seed)
        self.group = f"{self.random.choice(('billing', 'search', 'clicks', 'stock', 'mail', 'audit', 'fraud', 'ledger'))}-{plan.id}"
        self.topics = {f"{self.group}.events": self.random.randint(len(plan.clients) + 1, 2 * len(plan.clients) + 1)}
        self.members: dict[int, Handle] = {}
        self.defaults: dict[str, Any] = {}
        """Settings of all members, set before the first is started."""
        self.directory = world.directory / "clients" / plan.id
        self.directory.mkdir(parents=True)
        self._rebalances: list[LabelledRebalance] = []
        self._place = (run, cluster)
        self._names = {position: f"{self.group}-{position + 1}" for position in range(len(plan.clients) + 1)}
        self._has_client_ids = self.random.random() < 0.8 or plan.action in RESTARTS
        self._session_ms = self.random.choice((5_000, 6_000, 6_000, 7_000))
        self._heartbeat_ms = self.random.choice((500, 1_000, 1_500))
        self._debug = {position: self.random.random() < 0.15 for position in range(len(plan.clients) + 1)}

    def create_topics(self) -> None:
        """Create the topics of the group."""
        for name, partitions in self.topics.items():
            self.world.create_topic(name, partitions)

    def settings(self, position: int, **changes: Any) -> MemberSettings:
        """What the member at this place is started with."""
        client = changes.pop("client", None) or self.plan.clients[min(position, len(self.plan.clients) - 1)]
        name = self._names[position]
        settings = MemberSettings(
            name=name,
            client=client,
            servers=self.world.servers,
            group=self.group,
            topics=tuple(self.topics),
            assignors=(self.plan.assignor,),
            protocol=self.plan.protocol,
            session_ms=self._session_ms,
            heartbeat_ms=self._heartbeat_ms,
            client_id=name if self._has_client_ids else None,
            debug="cgrp" if client == "confluent" and self._debug[position] else None,
            log_format=(self.plan.seed + position) % len(LOG_FORMATS),
        )
        return replace(settings, **(self.defaults | changes))

    def start(self, position: int, *, is_alone: bool = False, **changes: Any) -> Handle:
        """Start the member at this place, in the process and log of its name."""
        settings = self.settings(position, **changes)
        if settings.client == "raw":
            consumer = RawConsumer(
                self.world.servers,
                self.group,
                self.topics,
                client_id=settings.name,
                timeout_ms=settings.max_poll_ms,
            )
            self.members[position] = RawHandle(settings.name, consumer)
        else:
            log_path = self.directory / f"{settings.name}.{settings.client}.log"
            self.members[position] = self.world.start_member(settings, log_path, is_alone=is_alone, rank=self.plan.seed)
        return self.members[position]

    def wait_stable(self, *, without: Collection[int] = ()) -> None:
        """Until the members own each partition once, each at least one, and that has been so for a second. Raises NotStable."""
        members = [handle for position, handle in self.members.items() if position not in without]
        try:
            wait_until_divided(members, self.topics, settled_s=SETTLED_S, seconds_max=STABLE_SECONDS_MAX)
        except TimeoutError as error:
            raise NotStable(f"{self.plan}: {error}") from error

    def quiet(self, seconds_min: float = 1.5, seconds_max: float = 3.0) -> None:
        """Nothing happens."""
        time.sleep(self.random.uniform(seconds_min, seconds_max))

    @contextmanager
    def caused(
        self, cause: str, *, also: Collection[str] = (), kind: str = REBALANCE, is_action: bool = True, is_certain: bool = True
    ) -> Iterator[None]:
        """What happens to the group in the block has this cause."""
        from_ms = now_ms()
        yield
        self._rebalances.append(
            LabelledRebalance(
                from_ms=from_ms,
                to_ms=now_ms(),
                cause=cause,
                also=tuple(sorted({*also, *self._habits()} - {cause})),
                kind=kind,
                is_action=is_action,
                is_certain=is_certain,
                planned=cause in PLANNED,
                avoidable=cause in AVOIDABLE,
            )
        )

    def _habits(self) -> set[str]:
        """What the group's clients do after any rebalance: a second half, a needless rejoin of the leader."""
        habits: set[str] = set()
        if self.plan.assignor == "cooperative-sticky":
            habits.add(Cause.COOP_FOLLOWUP)
        if self.plan.protocol == "classic" and not REJOINING.isdisjoint(self.plan.clients):
            habits.add(Cause.LEADER_REJOIN_SPURIOUS)
        return habits

    def finish(self) -> Incident:
        """The labels; the members are killed then, which is not labelled."""
        end_ms = now_ms()
        self.kill_all()
        run, cluster = self._place
        plan = self.plan
        return Incident(
            id=plan.id,
            run=run,
            cluster=cluster,
            group=self.group,
            protocol=plan.protocol,
            assignor=plan.assignor,
            clients=plan.clients,
            actor=plan.actor,
            cause=plan.cause,
            action=plan.action,
            end_ms=end_ms,
            half="",
            rebalances=tuple(self._rebalances),
        )

    def kill_all(self) -> None:
        """End all members."""
        self.world.stop_producing(list(self.topics))
        for handle in self.members.values():
            handle.kill()
        self.members.clear()

    def log_paths(self) -> list[Path]:
        """The logs of members with a process of their own."""
        return sorted(self.directory.glob("*.log"))


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
