"""What a group did, in words, for the message of a test that fails: each rebalance with its causes, clients by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.groups.events import EventMember
from ottla.history.group_history import Rebalance
from ottla.history.sources.evidence import Evidence
from ottla.history.story.sentences import counted, sentence_of

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


def rebalances_in_words(rebalances: Sequence[Rebalance]) -> str:
    """The rebalances of one group, a paragraph of lines; `Its events show no rebalance.` where there is none."""
    if not rebalances:
        return "Its events show no rebalance."
    names = Names([tuple(each.after.members.values()) for each in rebalances if each.after is not None])
    lines = [f"  {number}. {_in_words(rebalance, names)}" for number, rebalance in enumerate(rebalances, 1)]
    return "\n".join([f"Its {counted(len(rebalances), 'rebalance')}:", *lines])


def _in_words(rebalance: Rebalance, names: Names) -> str:
    causes = [_cause(trigger, names) for trigger in rebalance.triggers]
    planned = {True: "planned", False: "unplanned", None: "planned or not"}[rebalance.verdict.planned]
    head = f"{'; '.join(dict.fromkeys(causes)) or sentence_of(rebalance.verdict).removesuffix('.')} ({planned})"
    members = () if rebalance.after is None else tuple(rebalance.after.members.values())
    match rebalance.outcome:
        case "completed":
            return f"{head}: generation {rebalance.generation} with {names.of_members(members)}"
        case "emptied":
            return f"{head}: no member is left"
        case "superseded":
            return f"{head}: the next rebalance began before the assignment was stored"
        case "interrupted":
            return f"{head}: interrupted, the coordinator was loaded again or the group deleted"
        case _:
            joined = f", {names.of_members(members)} joined" if members else ""
            return f"{head}: not ended{joined}"


def _cause(trigger: Evidence, names: Names) -> str:
    who = names.name(trigger.instance_id, trigger.client_id, trigger.member_id)
    silent_ms = trigger.evidence.get("last_heartbeat_age_ms", 0)
    words = WORDS.get(trigger.trigger_code or "", "{who}: " + str(trigger.trigger_code)).format(who=who, last_heartbeat_age_ms=silent_ms)
    return f'{words}, saying "{trigger.client_reason}"' if trigger.client_reason else words
