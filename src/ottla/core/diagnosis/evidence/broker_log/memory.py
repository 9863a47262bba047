"""What earlier lines of a broker's log said that later ones do not repeat. Its size is limited: the oldest is forgotten first."""

import re
from typing import Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

ENTRIES_MAX: Final = 20_000

MADE_BY_BROKER: Final = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL)


class Memory:
    """One broker log's past, for one reader. `partition`: the coordinator that wrote the line being read."""

    def __init__(self) -> None:
        self.partition = ""
        self.leave_reasons: dict[tuple[str, str], str] = {}
        """(group, member id): the reason of a member that left since the last rebalance."""
        self.replacements: dict[str, dict[str, str | None]] = {}
        """By partition: the static member that was replaced by the line before."""
        self.replaced_members: dict[str, str] = {}
        """The group of a static member's id that was given up for a new one."""
        self.changed_groups: dict[str, bool] = {}
        """KIP-848 groups whose members changed since their epoch was increased."""
        self.metadata_hashes: dict[str, str] = {}
        self.other_groups: dict[str, str] = {}
        """Groups of other types than classic and consumer, with their type."""
        self._client_ids: dict[str, str] = {}

    def learn_client(self, member_id: str) -> str | None:
        """The client id in the id of a dynamic member, which the broker made of it; remembered, for lines that do not say "dynamic"."""
        made = MADE_BY_BROKER.fullmatch(member_id)
        if made is None:
            return None
        remember(self._client_ids, member_id, made[1])
        return made[1]

    def client_of(self, member_id: str) -> str | None:
        """The client id of a member that is known to be dynamic."""
        return self._client_ids.get(member_id)


def remember(entries: dict[Key, Value], key: Key, value: Value) -> None:
    """Keep a value; without the oldest one where there are too many."""
    entries[key] = value
    if len(entries) > ENTRIES_MAX:
        del entries[next(iter(entries))]
