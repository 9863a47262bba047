"""What surrounds a modelled member: the time, the network, the assignor, and the sums that its stops are added to."""

from collections.abc import Callable
from typing import Any, Protocol

from ottla.core.assignors import Assignor
from ottla.core.groups.effects import JoinResult
from ottla.core.whatif.partition_stops import PartitionStops
from ottla.core.whatif.requests import MakeRequest


class Environment(Protocol):
    """The environment of the members of one replay."""

    now_ms: int
    group_id: str
    assignor: Assignor
    stops: PartitionStops

    def send(self, request: MakeRequest, receive: Callable[[Any], None]) -> None:
        """Send a request; `receive` gets its result."""

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_ms`."""

    def new_member_id(self, process: str) -> str:
        """An id for a process that no member has had."""

    def assign(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        """What the leader of a generation assigns, by member id."""

    def sync_delay_ms(self) -> int:
        """How long the leader takes for it."""
