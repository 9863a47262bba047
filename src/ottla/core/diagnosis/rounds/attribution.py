"""Finds the group of evidence that names none (lines of some clients): by its member id, or by a client id that only one group has."""

from collections.abc import Iterable

from ottla.core.diagnosis.evidence.member_ids import name_in_member_id
from ottla.core.diagnosis.evidence.model import Evidence

_SEVERAL = ""


def by_group(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    """The evidence of each group, in the order in which it came; what belongs to no group is left out."""
    found: dict[str, list[Evidence]] = {}
    nameless: list[Evidence] = []
    for item in evidence:
        if item.group is None:
            nameless.append(item)
        else:
            found.setdefault(item.group, []).append(item)
    if nameless:
        names = _Names(found)
        for item in nameless:
            group = names.group_of(item)
            if group is not None:
                found[group].append(item)
    return found


class _Names:
    """Which group each member id, client id and log belongs to."""

    def __init__(self, groups: dict[str, list[Evidence]]) -> None:
        self._of_member: dict[str, str] = {}
        self._of_client: dict[str, str] = {}
        self._of_clock: dict[str, str] = {}
        for group, items in groups.items():
            for item in items:
                self._add(group, item.member_id, item.client_id)
                for member in item.members or ():
                    self._add(group, member.member_id, member.client_id)
                if item.source == "client-log":
                    self._put(self._of_clock, item.clock, group)

    def group_of(self, item: Evidence) -> str | None:
        """The group, if exactly one is possible: by member id, by client id, by the only group of the same log."""
        known = self._of_member.get(item.member_id or "") or self._of_client.get(item.client_id or "") or self._of_clock.get(item.clock)
        return known or None

    def _add(self, group: str, member_id: str | None, client_id: str | None) -> None:
        self._put(self._of_member, member_id, group)
        self._put(self._of_client, client_id or name_in_member_id(member_id), group)

    @staticmethod
    def _put(names: dict[str, str], name: str | None, group: str) -> None:
        if name and names.setdefault(name, group) != group:
            names[name] = _SEVERAL
