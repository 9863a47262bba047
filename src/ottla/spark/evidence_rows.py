"""Rows of one group to evidence, and verdicts to rows: what a Python worker does around the judging. It knows no Spark.

The readers are those of `ottla diagnose`; only the bytes are decoded already.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.history.sources.evidence import CommitSpan, Evidence, Kind, Source
from ottla.history.sources.group_events import evidence_of_events, read_event
from ottla.history.sources.group_records import GroupRecords, ReadCounts, clock_of
from ottla.history.verdicts.judging import judge_group
from ottla.history.verdicts.verdict import Verdict
from ottla.protocol.coordinator_records import GROUP_METADATA, OFFSETS_TOPIC_TYPES, ClassicGroupKey, GroupMetadataValue, MemberValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.record_codec import DecodedRecord, record_from_json
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NO_GENERATION, encode_assignment, encode_subscription
from ottla.spark.schemas import GROUP_EVENTS_TOPIC

Row = Mapping[str, Any]
_NO_TIME: Final = -1


def judge_rows(group: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The verdicts of one group, from its rows in order."""
    return [verdict_row(verdict) for verdict in judge_group(group, evidence_of_rows(group, rows))]


def evidence_of_rows(group: str, rows: Sequence[Row]) -> Iterator[Evidence]:
    """The evidence of records, commits and events of one group."""
    names = {span["topic_id"]: span["topic"] for row in rows for span in row["spans"] or () if span["topic_id"]}
    readers: dict[int, GroupRecords] = {}
    for row in rows:
        partition = row["partition"]
        if row["event"] is not None:
            yield from _event(row["event"], partition)
        elif row["spans"] is not None:
            yield _commits(group, partition, row["spans"])
        else:
            if partition not in readers:
                readers[partition] = GroupRecords(partition, decode=decode, counts=ReadCounts(), topic_names=names)
            # A record whose key is the row: `decode` makes the values of it.
            yield from readers[partition].read([Record(0, row["at_ms"], row, None)])  # type: ignore[arg-type]
    for reader in readers.values():
        yield from reader.finish()


def _event(value: str, partition: int) -> Iterator[Evidence]:
    event = read_event(value.encode())
    if event is not None:
        yield from evidence_of_events([event], clock=f"{GROUP_EVENTS_TOPIC}-{partition}")


def _commits(group: str, partition: int, spans: Iterable[Row]) -> Evidence:
    commits = {
        TopicPartition(span["topic"], span["topic_partition"]): CommitSpan(
            span["first_ms"], span["last_ms"], span["first_offset"], span["last_offset"], span["commit_count"]
        )
        for span in spans
    }
    at_ms = max(span.last_ms for span in commits.values())
    return Evidence(at_ms=at_ms, source=Source.OFFSETS_TOPIC, clock=clock_of(partition), kind=Kind.COMMITS, group=group, commits=commits)


def decode(row: Any, _value: bytes | None) -> DecodedRecord:
    """The values of a record from its row. Raises PeerError for a text that is no record."""
    if row["record_type"] == GROUP_METADATA:
        return DecodedRecord(
            GROUP_METADATA, ClassicGroupKey(group_id=row["group"]), None, None if row["is_tombstone"] else _generation(row)
        )
    try:
        return record_from_json(OFFSETS_TOPIC_TYPES, json.loads(row["record"]))
    except (ValueError, TypeError, KeyError) as error:
        raise PeerError(f"not the JSON of a record: {error}") from error


def _generation(row: Row) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,  # members of other protocols have no columns of a subscription or an assignment
        generation=row["generation"],
        protocol=row["protocol"],
        leader=row["leader"],
        current_state_timestamp_ms=_NO_TIME if row["state_ms"] is None else row["state_ms"],
        members=tuple([_member(member) for member in row["members"] or ()]),
    )


def _member(member: Row) -> MemberValue:
    topics, assigned = member["subscribed_topics"], member["assignment"]
    owned = dict(member["owned_partitions"] or ())
    return MemberValue(
        member_id=member["member_id"],
        instance_id=member["group_instance_id"],
        client_id=member["client_id"],
        client_host=member["client_host"],
        rebalance_timeout_ms=member["rebalance_timeout"],
        session_timeout_ms=member["session_timeout"],
        subscription=b"" if topics is None else encode_subscription(topics, owned=owned, generation=NO_GENERATION),
        assignment=b"" if assigned is None else encode_assignment(dict(assigned)),
    )


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row of the table `verdicts`, for Arrow: times in microseconds."""
    row = verdict.to_dict()
    started_ms, ended_ms = row.pop("started_ms"), row.pop("ended_ms")
    row["started_at"] = started_ms * 1000
    row["ended_at"] = None if ended_ms is None else ended_ms * 1000
    row["evidence"] = list(row["evidence"].items())
    return row
