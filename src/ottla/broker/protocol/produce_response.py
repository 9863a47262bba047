"""Produce's responses as bytes, in every version (3-13): our own encoder, because Produce is the hot path.

It decides nothing. Tests hold it to what kio reads. Source: KIP-467, KIP-516, KIP-951.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.current_leader import Leader, pack_endpoints, pack_leader
from ottla.core.errors import ErrorCode
from ottla.core.wire.writer import Writer
from ottla.storage.log.validation import Appended, LogRefusal

_FIRST_FLEXIBLE_VERSION: Final = 9
_FIRST_VERSION_WITH_LEADERS: Final = 10
_LEADER_TAG: Final = 0


@dataclass(slots=True)
class PartitionResult:
    """One partition's result. `log_start_offset`: -1 where nothing is said of the log; `leader`: id and epoch of another broker."""

    number: int
    outcome: Appended | LogRefusal
    log_start_offset: int = -1
    leader: tuple[int, int] | None = None


ProduceResults = list[tuple[bytes | str, list[PartitionResult]]]
"""Topics, by name or id as the request names them, with their partitions in the request's order."""


def encode_produce_response(version: int, results: ProduceResults, leader_of: Callable[[int], Leader | None]) -> bytearray:
    """The body, with a result for each partition by topic. `leader_of` knows brokers by id."""
    out = Writer(version >= _FIRST_FLEXIBLE_VERSION).array(len(results))
    for key, partitions in results:
        if isinstance(key, bytes):
            out.raw(key)
        else:
            out.string(key)
        out.array(len(partitions))
        for result in partitions:
            _pack_partition(out, version, result)
        out.end()
    out.int32(NO_THROTTLE_MS)
    if version < _FIRST_VERSION_WITH_LEADERS:
        return out.end().data
    pack_endpoints(out, [result.leader[0] for _, topic in results for result in topic if result.leader], leader_of)
    return out.data


def _pack_partition(out: Writer, version: int, result: PartitionResult) -> None:
    outcome = result.outcome
    out.int32(result.number)
    if isinstance(outcome, Appended):
        out.int16(ErrorCode.NONE).int64(outcome.base_offset).int64(outcome.log_append_time_ms)
        message = None
    else:
        out.int16(outcome.error).int64(-1).int64(-1)
        message = outcome.message
    if version >= 5:
        out.int64(result.log_start_offset)
    if version >= 8:
        _pack_record_errors(out, outcome)
        out.nullable_string(message)
    if version >= _FIRST_VERSION_WITH_LEADERS and result.leader is not None:
        pack_leader(out, _LEADER_TAG, *result.leader)
    else:
        out.end()


def _pack_record_errors(out: Writer, outcome: Appended | LogRefusal) -> None:
    """The single records at fault, by their number in the batch (v8+, KIP-467)."""
    errors = outcome.record_errors if isinstance(outcome, LogRefusal) else ()
    out.array(len(errors))
    for number, message in errors:
        out.int32(number).nullable_string(message).end()
