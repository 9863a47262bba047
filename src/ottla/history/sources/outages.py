"""Finds the instants at which a broker lost members of several groups: it stood still, or its host did, and all sessions expired meanwhile.

Members that are lost by themselves are lost one by one: heartbeats of two are seldom missed within the same second. Those behind one
network may be lost together, while the broker serves the others: it says something of its groups meanwhile, or nearly all members stay.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ottla.history.sources.evidence import Cause, Evidence, Kind, Source, name_in_member_id

AT_ONCE_MS: Final = 1_000
GROUPS_MIN, MEMBERS_MIN = 2, 3
UNLOADS_WITHIN_MS: Final = 5_000
"""A broker that stood still for long is no leader any more, which it learns when it goes on: then two members of one group are enough."""
BEGAN_WITHIN_MS: Final = 60_000
"""All sessions begin again when groups are loaded, so that those of members that are dead end together, which do not come back at once."""
LATE_MS: Final = 1_500
"""A broker that runs ends a session no longer after it has expired."""
BACK_MS: Final = 5_000
"""A member that lives joins again by then."""
STOOD_STILL_MS: Final = 4_000
"""A broker that stood still for a session timeout has said nothing for as long before. Few sessions are shorter."""
STAY_SHARE_MAX: Final = 0.55
"""Where so large a share of the members stays, it was not the broker. Some that seem to stay had gone unseen."""
LOST_AT_ONCE: Final = "members_lost_at_once"
"""The figure of a loss: how many members of all groups were lost in this instant, by their broker."""
LOST_IN_GROUP: Final = "members_lost_in_group"
"""The figure of a loss: how many members of its group were lost in this instant, where more than two in three are of this group."""


def note_outages(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The same evidence; expired sessions of one instant have the number of members that were lost in it, by the broker or of one group."""
    by_clock: dict[str, list[Evidence]] = {}
    unloaded: dict[str, list[int]] = {}
    loaded: dict[str, list[int]] = {}
    said: dict[str, list[int]] = {}
    members_of: dict[str, list[Evidence]] = {}
    for item in evidence:
        if item.source not in (Source.BROKER_LOG, Source.GROUP_EVENTS):
            continue
        said.setdefault(item.clock, []).append(item.at_ms)
        if item.kind in (Kind.MEMBER_JOINED, Kind.MEMBER_LEFT, Kind.MEMBER_REMOVED, Kind.TRIGGER) and item.member_id is not None:
            members_of.setdefault(item.clock, []).append(item)
        if item.trigger == Cause.EXPIRE_HEARTBEAT or (item.kind is Kind.MEMBER_REMOVED and Cause.EXPIRE_HEARTBEAT in item.candidates):
            by_clock.setdefault(item.clock, []).append(item)
        elif item.kind is Kind.UNLOADED:
            unloaded.setdefault(item.clock, []).append(item.at_ms)
        elif item.kind is Kind.LOADED:
            loaded.setdefault(item.clock, []).append(item.at_ms)
    noted: dict[int, Evidence] = {}
    for clock, items in by_clock.items():
        items.sort(key=lambda item: item.at_ms)
        for together in _instants(items):
            members = {(item.group, item.member_id) for item in together}
            end_ms = together[-1].at_ms
            has_unloaded = any(0 <= at_ms - end_ms <= UNLOADS_WITHIN_MS for at_ms in unloaded.get(clock, ()))
            loads = [at_ms for at_ms in loaded.get(clock, ()) if 0 <= end_ms - at_ms <= BEGAN_WITHIN_MS]
            began_together = bool(loads) and not _have_lived(max(loads), together, members_of.get(clock, ()))
            is_of_several = len({group for group, _ in members}) >= GROUPS_MIN and len(members) >= MEMBERS_MIN
            is_of_broker = is_of_several and not began_together and _stood_still(together, said[clock], members_of.get(clock, ()))
            if (len(members) > 1 and (has_unloaded or _was_late(together))) or is_of_broker:
                noted |= {id(item): replace(item, evidence={**item.evidence, LOST_AT_ONCE: len(members)}) for item in together}
                continue
            of_group = Counter(group for group, _ in members)
            for item in together:
                if of_group[item.group] > 2 * (len(members) - of_group[item.group]):
                    noted[id(item)] = replace(item, evidence={**item.evidence, LOST_IN_GROUP: of_group[item.group]})
    return [noted.get(id(item), item) for item in evidence]


def _was_late(together: Sequence[Evidence]) -> bool:
    """Whether the broker says that it ended most of these sessions long after they had expired: it stood still meanwhile."""
    ages = [(item.evidence.get("last_heartbeat_age_ms", 0), item.evidence.get("session_timeout_ms")) for item in together]
    late = [age_ms - session_ms >= LATE_MS for age_ms, session_ms in ages if session_ms is not None]
    return 2 * sum(late) > len(together)


def _have_lived(load_ms: int, together: Sequence[Evidence], about_members: Sequence[Evidence]) -> bool:
    """Whether most of these members were heard of after their groups were loaded, or come back at once."""
    lost = set(map(_member, together))
    first_ms, last_ms = together[0].at_ms, together[-1].at_ms
    heard = {_member(item) for item in about_members if load_ms < item.at_ms < first_ms}
    back = {
        _member(item)
        for item in about_members
        if last_ms - AT_ONCE_MS < item.at_ms <= last_ms + BACK_MS
        and item.kind is not Kind.MEMBER_REMOVED
        and item.trigger != Cause.EXPIRE_HEARTBEAT
    }
    return 2 * len(lost & (heard | back)) > len(lost)


def _stood_still(together: Sequence[Evidence], said: Sequence[int], about_members: Sequence[Evidence]) -> bool:
    """Whether the broker said nothing just before, and not only a few members are lost."""
    first_ms = together[0].at_ms
    if any(first_ms - STOOD_STILL_MS <= at_ms <= first_ms - AT_ONCE_MS for at_ms in said):
        return False
    here: set[tuple[str | None, str | None]] = set()
    for item in about_members:
        if item.at_ms >= first_ms:
            continue
        if item.kind in (Kind.MEMBER_LEFT, Kind.MEMBER_REMOVED) or item.trigger == Cause.EXPIRE_HEARTBEAT:
            here.discard(_member(item))
        else:
            here.add(_member(item))
    lost = set(map(_member, together))
    return len(here - lost) <= STAY_SHARE_MAX * len(here | lost)


def _member(item: Evidence) -> tuple[str | None, str | None]:
    """A process that is started again is one member, by its name."""
    return item.group, item.instance_id or item.client_id or name_in_member_id(item.member_id) or item.member_id


def _instants(items: Iterable[Evidence]) -> Iterable[list[Evidence]]:
    """Losses that follow each other within an instant."""
    together: list[Evidence] = []
    for item in items:
        if together and item.at_ms - together[-1].at_ms > AT_ONCE_MS:
            yield together
            together = []
        together.append(item)
    if together:
        yield together
