"""Pairs members that went with the clients that came back: by member id, by the client's name within minutes, or by their times alone.

Times are compared on one clock only. Entries older than RETURN_WITHIN_MS are dropped, so memory does not grow with the history.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from ottla.history.processes import Identity
from ottla.history.rounds.membership import Role
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.sources.evidence import Evidence

RETURN_WITHIN_MS: Final = 300_000
"""A client that joins again within this time came back; Kafka's default max.poll.interval.ms."""
SESSION_MAX_MS: Final = 60_000
SLACK_MS: Final = 5_000
"""A member whose process was replaced is removed when its session ends, and the others have joined again."""
TOGETHER_MS: Final = 3_000
"""Members that join this soon after a group's first assignment were started together with the first ones."""
PORTS_MAX: Final = 10_000
ROUNDS_APART_MAX: Final = 20
"""Where clocks differ: a return is at most this many rebalances after the departure."""


class Returns:
    """The departures of one group that nothing has been paired with yet, and the names of the members that are there."""

    def __init__(self) -> None:
        self._gone: dict[str, deque[tuple[int, Departure]]] = {}
        self._alive: dict[str, dict[str, Arrival | None]] = {}
        """By name: the member ids that have it."""
        self._ports: dict[str, int] = {}
        """By member id: the port from which it joined."""
        self._nameless = NamelessMembers()
        self._rounds = 0

    def take(self, rebalance: Round) -> None:
        """Pair the arrivals of the next round, then keep its departures."""
        self._rounds += 1
        self._note_alive(rebalance)
        for arrival in rebalance.arrivals:
            port = _port(arrival.items)
            if port is not None and arrival.who.member_id is not None:
                self._ports[arrival.who.member_id] = port
        for departure in rebalance.departures:
            self._mark_replaced(departure)
            joined_from, left_from = self._ports.get(departure.who.member_id or ""), departure.figures.get("client_port")
            if joined_from is not None and left_from is not None:
                departure.is_left_by_other = joined_from != left_from
        before = {id(departure) for departure in rebalance.departures}
        # Members of one name that start together are not each other's successors.
        is_start = rebalance.is_start or (rebalance.since_cold_start_ms is not None and rebalance.since_cold_start_ms <= TOGETHER_MS)
        for departure in rebalance.departures:
            self._keep(departure)
        for arrival in rebalance.arrivals:
            self._pair(arrival, before, is_start=is_start)
        for departure in rebalance.departures:
            self._forget(departure.who)
        for arrival in rebalance.arrivals:
            if arrival.who.name is not None and arrival.who.member_id is not None:
                self._alive.setdefault(arrival.who.name, {})[arrival.who.member_id] = arrival

    def _note_alive(self, rebalance: Round) -> None:
        """Members that the last list shows, for names that no arrival gave."""
        if rebalance.before is not None:
            self._alive = {
                name: {member_id: arrival for member_id, arrival in of_name.items() if member_id in rebalance.before.members}
                for name, of_name in self._alive.items()
            }
            for member_id, member in rebalance.before.members.items():
                name = Identity(member_id, member.instance_id, member.client_id or None).name
                if name is not None:
                    self._alive.setdefault(name, {}).setdefault(member_id, None)

    def _mark_replaced(self, departure: Departure) -> None:
        """A member whose client had joined again as another member."""
        name = departure.who.name
        if departure.is_consumer_type:
            self._nameless.add(departure)
        if name is None:
            return
        others = {member_id: arrival for member_id, arrival in self._alive.get(name, {}).items() if member_id != departure.who.member_id}
        departure.is_shared_name = bool(others)
        successors = [arrival for arrival in others.values() if arrival is not None and arrival.replaces and _took_over(arrival, departure)]
        if len(successors) < len(others) or departure.who.has_default_name or departure.role == "left":
            return  # members of one name: nothing says which of them took its place
        free = [arrival for arrival in successors if arrival.loss is None]
        if free:  # the first of them, where a process ended again and again before its sessions did
            departure.is_replaced_before = True
            departure.returned, free[0].loss = free[0], departure

    def _keep(self, departure: Departure) -> None:
        if departure.returned is None:
            name = departure.who.name or departure.who.member_id or ""
            gone = self._gone.setdefault(name, deque())
            gone.append((self._rounds, departure))
            if len(self._ports) > PORTS_MAX:
                self._ports.pop(next(iter(self._ports)))
            while (gone and _is_over(gone[0][1], departure)) or len(gone) > ROUNDS_APART_MAX:
                gone.popleft()

    def _pair(self, arrival: Arrival, of_this_round: Iterable[int], *, is_start: bool) -> None:
        name = arrival.who.name or arrival.who.member_id or ""
        alive = [member_id for member_id in self._alive.get(name, {}) if member_id != arrival.who.member_id]
        gone = self._gone.get(name)
        found = None if not gone else self._best(gone, arrival)
        if gone is None or found is None:
            arrival.replaces = bool(alive) and arrival.who.name is not None and not is_start
            if not alive and any(item.group_type == "consumer" for item in arrival.items):
                self._nameless.pair(arrival)
            return
        departure = found[1]
        if alive or arrival.who.has_default_name or any(other.is_shared_name for _, other in gone):
            gone.remove(found)
        else:
            gone.clear()  # what went before has come back since, unseen: it was there to go once more
        departure.returned, arrival.loss = arrival, departure
        was_on = self._ports.get(departure.who.member_id or "") or departure.figures.get("client_port")
        came_from = _port(arrival.items)
        if was_on is not None and came_from is not None:
            departure.is_same_connection = was_on == came_from
        departure.is_shared_name = departure.is_shared_name or len(alive) > 0
        if departure.clock == arrival.clock:
            departure.returned_after_ms = arrival.at_ms - departure.at_ms
        departure.returned_at_once = id(departure) in of_this_round
        if id(departure) in of_this_round and departure.role != "left" and arrival.at_ms < departure.at_ms:
            departure.is_replaced_before = arrival.replaces = departure.clock == arrival.clock
            departure.returned_after_ms = None if departure.is_replaced_before else departure.returned_after_ms

    def _best(self, gone: deque[tuple[int, Departure]], arrival: Arrival) -> tuple[int, Departure] | None:
        """The same member id first, then the same host, then the last one: a departure ends with the next join of its process."""
        possible = [each for each in gone if each[1].returned is None and self._may_be(each, arrival)]
        if not possible:
            return None
        return max(
            possible, key=lambda item: (item[1].who.member_id == arrival.who.member_id, item[1].who.has_same_host(arrival.who), item[0])
        )

    def _may_be(self, each: tuple[int, Departure], arrival: Arrival) -> bool:
        number, departure = each
        if departure.clock == arrival.clock:
            return arrival.at_ms - departure.at_ms <= RETURN_WITHIN_MS
        return self._rounds - number <= ROUNDS_APART_MAX

    def _forget(self, who: Identity) -> None:
        if who.name is not None and who.member_id is not None:
            of_name = self._alive.get(who.name, {})
            of_name.pop(who.member_id, None)
            if not of_name:
                self._alive.pop(who.name, None)


def _took_over(arrival: Arrival, departure: Departure) -> bool:
    """Whether the member was removed so soon after the arrival that it had not sent a heartbeat since."""
    limit_ms = departure.session_timeout_ms or SESSION_MAX_MS
    return arrival.clock == departure.clock and 0 <= departure.at_ms - arrival.at_ms <= limit_ms + SLACK_MS


def _port(items: Iterable[Evidence]) -> int | None:
    return next((item.evidence["client_port"] for item in items if "client_port" in item.evidence), None)


def _is_over(old: Departure, new: Departure) -> bool:
    return old.clock == new.clock and new.at_ms - old.at_ms > RETURN_WITHIN_MS


NAMELESS_WITHIN_MS: Final = 30_000
KEPT_MAX: Final = 20


def _has_nameless(departure: Departure, arrival: Arrival) -> bool:
    """One of the two may have a name, from the log of a client that does not cover the other."""
    return departure.who.name is None or arrival.who.name is None


class NamelessMembers:
    """Members of which only a random id is known, as in the log of a KIP-848 group, and that nothing has been paired with.

    A restarted process has another id: one member goes, another comes within seconds. If the process was killed, the other one may come
    first: the session of the one that was killed is not over yet.
    """

    def __init__(self) -> None:
        self._gone: list[Departure] = []
        self._came: list[Arrival] = []

    def add(self, departure: Departure) -> None:
        """Keep a departure; one whose session expired may be of a process that had been started again before."""
        self._gone = [*self._gone[1 - KEPT_MAX :], departure]
        if departure.role != Role.EXPIRED:
            return
        for arrival in self._came:
            is_near = departure.clock == arrival.clock and 0 <= departure.at_ms - arrival.at_ms <= SESSION_MAX_MS
            if is_near and arrival.who.member_id != departure.who.member_id and _has_nameless(departure, arrival):
                departure.may_be_replaced = arrival.may_replace = True

    def pair(self, arrival: Arrival) -> None:
        """Pair an arrival with the oldest departure of the last seconds, if there is one."""
        for departure in self._gone:
            is_near = departure.clock == arrival.clock and 0 <= arrival.at_ms - departure.at_ms <= NAMELESS_WITHIN_MS
            if is_near and departure.returned is None and _has_nameless(departure, arrival):
                self._gone.remove(departure)
                departure.returned, arrival.loss = arrival, departure
                departure.returned_after_ms = arrival.at_ms - departure.at_ms
                departure.is_nameless_pair = True
                return
        self._came = [*self._came[1 - KEPT_MAX :], arrival]
