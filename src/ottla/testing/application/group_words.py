"""What a group did, in words, for the message of a test that fails: each rebalance with its causes, clients by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.core.diagnosis.rebalances import Rebalance, rebalances, split_by_rebalance
from ottla.core.diagnosis.story.words import counted
from ottla.core.model import EventMember, GroupEvent

WORDS: Final[Mapping[str, str]] = {
    "JOIN_NEW": "{who} joined",
    "LEAVE": "{who} left",
    "POLL_TIMEOUT": "{who} did not poll within max.poll.interval.ms and left",
    "ADMIN_REMOVE": "{who} was removed by an administrator or evicted",
    "EXPIRE_HEARTBEAT": "the session of {who} ended, which sent no heartbeat for {last_heartbeat_age_ms} ms",
    "JOIN_TIMEOUT": "{who} did not rejoin within its rebalance timeout and was removed",
    "SYNC_TIMEOUT": "{who} sent no SyncGroup and was removed",
    "LEADER_REJOIN": "{who}, the leader, joined again",
    "METADATA_UPDATE": "{who} joined again with another subscription",
    "ASSIGNOR_CHANGE": "{who} brought another assignor",
    "STATIC_REJOIN": "{who} came back with its group.instance.id",
    "STATIC_FENCED": "a second process used the group.instance.id of {who}",
    "STORE_ERROR": "the assignment could not be stored",
    "CAPACITY": "{who} was one member more than group.max.size",
}
"""What a cause code (docs/rebalances.md) says of a member."""


class Names:
    """Names of members: the group.instance.id, or else the client id, with the member id where several members share a client id."""

    def __init__(self, member_lists: Iterable[Sequence[EventMember]]) -> None:
        self._shared: set[str] = set()
        for members in member_lists:
            clients = [member.client_id for member in members if member.instance_id is None]
            self._shared.update(client for client in clients if clients.count(client) > 1)

    def name(self, instance_id: str | None, client_id: str | None, member_id: str | None) -> str:
        """The name of one member."""
        if instance_id is not None:
            return instance_id
        if client_id is None or client_id in self._shared:
            return member_id or "a member"
        return client_id

    def of_members(self, members: Iterable[EventMember]) -> str:
        """The names of several, sorted."""
        return ", ".join(sorted(self.name(each.instance_id, each.client_id, each.member_id) for each in members))


def rebalances_in_words(events: Sequence[GroupEvent]) -> str:
    """All rebalances in the events of one group, a paragraph of lines; `Its events show no rebalance.` where there is none."""
    rows, (_, parts) = rebalances(events), split_by_rebalance(events)
    if not rows:
        return "Its events show no rebalance."
    names = Names(event.members for event in events)
    lines = [f"  {number}. {_in_words(row, part, names)}" for number, (row, part) in enumerate(zip(rows, parts, strict=True), 1)]
    return "\n".join([f"Its {counted(len(rows), 'rebalance')}:", *lines])


def _in_words(row: Rebalance, events: Sequence[GroupEvent], names: Names) -> str:
    causes = [_cause(event, names) for event in events if event.kind == "trigger"]
    planned = {True: "planned", False: "unplanned", None: "planned or not"}[row.planned]
    head = f"{'; '.join(dict.fromkeys(causes)) or 'no cause was published'} ({planned})"
    members = next((event.members for event in reversed(events) if event.members), ())
    match row.outcome:
        case "completed":
            return f"{head}: generation {row.generation} with {names.of_members(members)}"
        case "emptied":
            return f"{head}: no member is left"
        case "superseded":
            return f"{head}: the next rebalance began before the assignment was stored"
        case "interrupted":
            return f"{head}: interrupted, the coordinator was loaded again or the group deleted"
        case _:
            joined = f", {names.of_members(members)} joined" if members else ""
            return f"{head}: not ended{joined}"


def _cause(event: GroupEvent, names: Names) -> str:
    who = names.name(event.instance_id, event.client_id, event.member_id)
    words = WORDS.get(event.trigger or "", "{who}: " + str(event.trigger)).format(who=who, last_heartbeat_age_ms=_silence(event))
    return f'{words}, saying "{event.client_reason}"' if event.client_reason else words


def _silence(event: GroupEvent) -> int:
    return event.evidence.get("last_heartbeat_age_ms", 0)
