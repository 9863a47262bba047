"""Who leads instead, for clients that asked another broker or know an old leader epoch: tagged fields of Fetch and Produce (KIP-951).

It packs what it is given and decides nothing.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, NamedTuple

from ottla.core.wire.writer import Writer

_LEADER: Final = Struct(">BBBiiB")
_LEADER_BYTES, _ENDPOINTS_TAG = 9, 0


class Leader(NamedTuple):
    """A broker that leads partitions, and where clients find it."""

    node_id: int
    host: str
    port: int


def pack_leader(out: Writer, tag: int, leader_id: int, leader_epoch: int) -> None:
    """The tagged section of a partition, with nothing but its leader."""
    out.data += _LEADER.pack(1, tag, _LEADER_BYTES, leader_id, leader_epoch, 0)


def pack_endpoints(out: Writer, leader_ids: Iterable[int], leader_of: Callable[[int], Leader | None]) -> None:
    """The end of the response: where the leaders are that it names. `leader_of` knows brokers by id."""
    leaders = [leader for each in sorted(set(leader_ids)) if (leader := leader_of(each)) is not None]
    if not leaders:
        out.end()
        return
    endpoints = Writer(flexible=True).array(len(leaders))
    for leader in leaders:
        endpoints.int32(leader.node_id).string(leader.host).int32(leader.port).nullable_string(None).end()
    out.tagged_fields({_ENDPOINTS_TAG: endpoints.data})
