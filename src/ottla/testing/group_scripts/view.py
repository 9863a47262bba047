"""What the members of a scripted group know: who has which id, who has to do what next, and how the group looked a moment ago.

It learns from answers as clients do, in the form in which two brokers' answers are compared (member ids are names like `c2-<1>`), so
that what it knows is true of both brokers. It never talks to a broker and decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 11, 12, 13, 14
UNKNOWN_SERVER_ERROR = -1
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 0, 22, 25, 27
MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 79, 82
OUTSIDER = "outsider"
UNREADABLE_SUBSCRIPTION = b"\x00\x00\x7f\xff\xff\xff"
"""A subscription of two billion topics, in six bytes."""
LONG_TEXT = "x" * 4096


class Need(Enum):
    """What a well-behaved member would do next."""

    JOIN = "join"
    SYNC = "sync"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a script does, in values that hold for every broker.

    `kind` is what tests count. `api` None sends nothing: the script then waits until the group has changed, or for `pause_ms`.
    `actor` is the member whose knowledge the answer changes; `arms_ms` says that a timer of this length runs from here on, so that
    what follows has to be quick.
    """

    kind: str
    api: int | None = None
    version: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    client_id: str = OUTSIDER
    actor: int | None = None
    arms_ms: int | None = None
    pause_ms: int | None = None

    def armed(self, arms_ms: int) -> "Step":
        """The same step, from which on a short timer runs."""
        return replace(self, arms_ms=arms_ms)

    def unheard(self) -> "Step":
        """The same step, whose answer nobody learns from."""
        return replace(self, actor=None)

    def __str__(self) -> str:
        if self.api is None:
            return f"{self.kind}: wait " + ("until the group changes" if self.pause_ms is None else f"{self.pause_ms} ms")
        said = str(dict(self.values)).replace(LONG_TEXT, "xxx...")
        return f"{self.kind}: api {self.api} v{self.version} as {self.client_id} {said}"


@dataclass(slots=True, kw_only=True)
class Actor:
    """One member to be, with what it was told last; `member_id` is empty while it has none."""

    number: int
    client_id: str
    instance_id: str | None
    protocols: list[tuple[str, bytes]]
    session_ms: int
    rebalance_ms: int
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    need: Need = Need.JOIN
    old_ids: list[str] = field(default_factory=list)

    def forget_id(self) -> None:
        """It is no member any more and would begin anew."""
        if self.member_id:
            self.old_ids.append(self.member_id)
        self.member_id, self.leads, self.need = "", False, Need.JOIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The group as DescribeGroups showed it after the last step: state, protocol, and member ids with their instance ids."""

    state: str = "Dead"
    protocol: str = ""
    members: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class View:
    """Everything that a script may look at when it chooses its next step."""

    group: str
    protocol_type: str
    topics: dict[str, int]
    """Topics that exist, with their partition counts."""
    gone_topics: set[str] = field(default_factory=set)
    actors: list[Actor] = field(default_factory=list)
    picture: Picture = Picture()
    parked: dict[int, Step] = field(default_factory=dict)
    """Requests without an answer so far, by their number."""
    is_over: bool = False
    """Nothing more can be said about this script."""

    def is_parked(self, actor: Actor) -> bool:
        """Whether a request of this member waits for its answer."""
        return any(step.actor == actor.number for step in self.parked.values())

    def owner(self, member_id: str) -> Actor | None:
        """The member that has this id now."""
        return next((actor for actor in self.actors if actor.member_id == member_id), None)

    def joined(self) -> list[Actor]:
        """Members that the group lists."""
        return [actor for actor in self.actors if actor.member_id in self.picture.members]

    def heard(self, step: Step, answer: Mapping[str, Any]) -> None:
        """A member learns from an answer to one of its own requests."""
        if step.actor is None:
            return
        actor = self.actors[step.actor]
        sent_id = step.values.get("member_id", "")
        if step.api == JOIN_GROUP:
            self._joined(actor, sent_id, answer)
        elif step.api == LEAVE_GROUP:
            if answer["error_code"] == NONE and all(each["error_code"] == NONE for each in answer.get("members", ())):
                actor.forget_id()
        elif step.api in (SYNC_GROUP, HEARTBEAT) and sent_id == actor.member_id:
            self._told(actor, step.api, answer["error_code"])

    @staticmethod
    def _joined(actor: Actor, sent_id: str, answer: Mapping[str, Any]) -> None:
        error = answer["error_code"]
        if error == MEMBER_ID_REQUIRED:
            actor.forget_id()
            actor.member_id = answer["member_id"]
        elif error == NONE:
            if actor.member_id != answer["member_id"]:
                actor.forget_id()
            actor.member_id, actor.generation = answer["member_id"], answer["generation_id"]
            actor.leads = answer["leader"] == actor.member_id
            actor.need = Need.SYNC
        elif error in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID) and sent_id == actor.member_id:
            actor.forget_id()

    @staticmethod
    def _told(actor: Actor, api: int, error: int) -> None:
        if error == NONE and api == SYNC_GROUP:
            actor.need = Need.NOTHING
        elif error in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            actor.need = Need.JOIN
        elif error in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
            actor.forget_id()
