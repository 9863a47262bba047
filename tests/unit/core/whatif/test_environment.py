"""A member in an environment written for the test: nothing else is needed to run it."""

from collections.abc import Callable
from typing import Any

from ottla.core.assignors.range import ASSIGNOR
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import JoinGroup, Request
from ottla.core.groups.effects import JoinResult
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.environment import Environment
from ottla.core.whatif.member import ModelMember
from ottla.core.whatif.partition_stops import PartitionStops
from ottla.testing.kit.group_behaviours import process


class Recorder:
    """Keeps requests and their receivers."""

    group_id = "g"
    assignor = ASSIGNOR

    def __init__(self) -> None:
        self.now_ms = 0
        self.stops = PartitionStops()
        self.sent: list[tuple[Request, Callable[[Any], None]]] = []

    def send(self, request: Callable[[int], Request], receive: Callable[[Any], None]) -> None:
        self.sent.append((request(0), receive))

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        raise AssertionError("nothing is scheduled")

    def new_member_id(self, process: str) -> str:
        return f"{process}-{len(self.sent)}"

    def assign(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        return ()

    def sync_delay_ms(self) -> int:
        return 0


def test_a_member_joins_again_with_the_id_that_it_gets() -> None:
    environment = Recorder()
    as_protocol: Environment = environment
    ModelMember(process("a"), as_protocol).act(0, Action(at_ms=0, kind=ActionKind.START))
    _, receive = environment.sent[0]
    receive(JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="a-0"))
    joins = [request.member_id for request, _ in environment.sent if isinstance(request, JoinGroup)]
    assert joins == ["", "a-0"]
