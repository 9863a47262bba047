"""A rebalance as a sentence: what triggered it, whether it was planned, and what it cost.

The row's verdict is printed with its confidence; where the cause cannot be known, the sentence says what it may have been.
"""

from collections.abc import Mapping
from typing import Any

_CAUSES: Mapping[tuple[str | None, bool | None], str] = {
    ("JOIN_NEW", True): "{client} joined",
    ("JOIN_NEW", False): "{client} came back",
    ("LEAVE", True): "{client} left in order",
    ("LEAVE", False): "{client} left, and came back later: a restart, or a poll interval missed",
    ("EXPIRE_HEARTBEAT", False): "{client} sent no heartbeats for its whole session and was removed",
    ("LEADER_REJOIN", True): "{client}, the leader, asked for new assignments",
    ("METADATA_UPDATE", True): "{client} changed its subscription",
}
_PLANNED = {True: "planned", False: "not planned", None: "planned or not is unknown"}


def sentence(row: Mapping[str, Any]) -> str:
    """A row of the table `rebalances` as a sentence."""
    cause = _CAUSES.get((row["trigger"], row["planned"]), "{client}: {trigger}")
    text = cause.format(client=row["client_id"] or "unknown client", trigger=row["trigger"] or "no trigger was seen")
    if row["coalesced"]:
        text += f" (and {', '.join(row['coalesced'])} in the meantime)"
    if row["partitions_new"] and row["members_before"]:
        text += f", as {row['partitions_new']} partitions are new"
    return f"{text}. {verdict(row).capitalize()}. {_cost(row)}"


def verdict(row: Mapping[str, Any]) -> str:
    """Planned or not, with the confidence where it is not high."""
    planned = _PLANNED[row["planned"]]
    return planned if row["confidence"] == "high" or row["planned"] is None else f"{planned}, {row['confidence']} confidence"


def _cost(row: Mapping[str, Any]) -> str:
    if row["outcome"] == "emptied":
        return "No member is left."
    if row["outcome"] != "completed":
        return f"No assignments were made ({row['outcome']})."
    moved = f"{row['partitions_moved']} of {row['partitions_assigned']}" if row["partitions_moved"] else "no"
    return f"{(row['join_ms'] or 0) + (row['sync_ms'] or 0)} ms, {moved} partitions moved."
