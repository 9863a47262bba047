"""The state of a scripted group as its members know it: their ids, what each does next, and the latest description of the group.

It is updated from masked responses (member ids are names like `c2-<1>`), so that it holds for both brokers.
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
    """What a correct member does next."""

    JOIN = "join"
    SYNC = "sync"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a script, in values that are valid for every broker.

    `kind` is what tests count. `api` None sends nothing: the script waits until the group has changed, or for `pause_ms`.
    `actor` is the member that learns from the response; `arms_ms` is the length of a timer that runs from this step on, so that the
    next steps must be quick.
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

    def without_actor(self) -> "Step":
        """The same step, from whose response no member learns."""
        return replace(self, actor=None)

    def __str__(self) -> str:
        if self.api is None:
            return f"{self.kind}: wait " + ("until the group changes" if self.pause_ms is None else f"{self.pause_ms} ms")
        said = str(dict(self.values)).replace(LONG_TEXT, "xxx...")
        return f"{self.kind}: api {self.api} v{self.version} as {self.client_id} {said}"


@dataclass(slots=True, kw_only=True)
class Actor:
    """One client and its latest ids; `member_id` is empty while it has none."""

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
        """Drop the member id: the client joins without one next."""
        if self.member_id:
            self.old_ids.append(self.member_id)
        self.member_id, self.leads, self.need = "", False, Need.JOIN


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """The described group after the last step: state, protocol, and member ids with their instance ids."""

    state: str = "Dead"
    protocol: str = ""
    members: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ScriptState:
    """Everything from which a script chooses its next step."""

    group: str
    protocol_type: str
    topics: dict[str, int]
    """Topics that exist, with their partition counts."""
    gone_topics: set[str] = field(default_factory=set)
    actors: list[Actor] = field(default_factory=list)
    description: GroupDescription = GroupDescription()
    parked: dict[int, Step] = field(default_factory=dict)
    """Requests without a response so far, by their number."""
    is_over: bool = False
    """Whether the script cannot be compared any further."""

    def is_parked(self, actor: Actor) -> bool:
        """Whether a request of this member is parked."""
        return any(step.actor == actor.number for step in self.parked.values())

    def owner(self, member_id: str) -> Actor | None:
        """The member that has this id now."""
        return next((actor for actor in self.actors if actor.member_id == member_id), None)

    def joined(self) -> list[Actor]:
        """Members that the group lists."""
        return [actor for actor in self.actors if actor.member_id in self.description.members]

    def learn(self, step: Step, answer: Mapping[str, Any]) -> None:
        """Update a member from the response to one of its own requests."""
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
            self._answered(actor, step.api, answer["error_code"])

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
    def _answered(actor: Actor, api: int, error: int) -> None:
        if error == NONE and api == SYNC_GROUP:
            actor.need = Need.NOTHING
        elif error in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            actor.need = Need.JOIN
        elif error in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
            actor.forget_id()
