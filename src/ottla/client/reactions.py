"""What a client does after an error, by request: one table for each, which the state machines read (docs/consumer.md shows them).

Whatever is sent again is sent after a back-off (`client.backoff`). A few reactions are expected to help at once: their first failures in a
row are followed by an attempt without a wait. Sources: Kafka's response handlers in `AbstractCoordinator`, `ConsumerCoordinator`,
`ConsumerHeartbeatRequestManager`, `OffsetFetcherUtils`, `OffsetsForLeaderEpochUtils` and `FetchCollector`; librdkafka's
`rd_kafka_cgrp_handle_ConsumerGroupHeartbeat`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode as E


class Reaction(Enum):
    """What follows an error."""

    RETRY = "send it again after a back-off"
    REFRESH = "ask for metadata, and send it again after a back-off"
    FIND_COORDINATOR = "find the coordinator, and send it again after a back-off"
    NEW_SESSION = "begin another fetch session"
    RESET = "continue where auto.offset.reset says"
    REJOIN = "join again"
    FORGET_GENERATION = "forget the generation, keep the member id, and join again"
    FORGET_MEMBER = "forget generation and member id, and join again"
    TAKE_MEMBER_ID = "join again with the member id of the response"
    TELL = "tell the application"
    END = "tell the application, in each call: the membership is over"


class ReactionTable(NamedTuple):
    """The reactions to the errors of one request; `other`: to those that `named` does not have."""

    named: Mapping[E, Reaction]
    other: Reaction

    def of(self, error: E) -> Reaction:
        """The reaction to an error."""
        return self.named.get(error, self.other)


INVALID_METADATA: Final = frozenset(
    {
        E.NOT_LEADER_OR_FOLLOWER,
        E.LEADER_NOT_AVAILABLE,
        E.REPLICA_NOT_AVAILABLE,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.KAFKA_STORAGE_ERROR,
        E.LISTENER_NOT_FOUND,
        E.BROKER_NOT_AVAILABLE,
    }
)
"""Another broker may lead the partition now."""
UNKNOWN_TOPIC: Final = frozenset({E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID})
"""The topic may have been deleted or re-created."""

_LEADER_MOVED: Final = dict.fromkeys(INVALID_METADATA, Reaction.REFRESH)
_NO_TOPIC: Final = dict.fromkeys(UNKNOWN_TOPIC, Reaction.REFRESH)
_LATER: Final = dict.fromkeys((E.OFFSET_NOT_AVAILABLE, E.REQUEST_TIMED_OUT), Reaction.RETRY)
_BROKEN: Final = dict.fromkeys((E.UNKNOWN_SERVER_ERROR, E.NETWORK_EXCEPTION, E.THROTTLING_QUOTA_EXCEEDED), Reaction.RETRY)
_COORDINATOR_MOVED: Final = dict.fromkeys((E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR), Reaction.FIND_COORDINATOR)
_COORDINATOR_LATER: Final = dict.fromkeys(
    (E.COORDINATOR_LOAD_IN_PROGRESS, E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR), Reaction.RETRY
)

CALL: Final = ReactionTable(
    _LEADER_MOVED | _LATER | dict.fromkeys((*_COORDINATOR_MOVED, E.COORDINATOR_LOAD_IN_PROGRESS), Reaction.RETRY), Reaction.TELL
)
"""Requests of calls that wait for their answer, within the time of the call."""
METADATA: Final = ReactionTable(_LEADER_MOVED | _LATER | _BROKEN, Reaction.TELL)
"""What a topic has; it is asked for again in any case, as long as it is of interest."""
FIND_COORDINATOR: Final = ReactionTable(
    dict.fromkeys((*_COORDINATOR_LATER, *_COORDINATOR_MOVED, E.BROKER_NOT_AVAILABLE), Reaction.RETRY), Reaction.TELL
)
JOIN: Final = ReactionTable(
    _COORDINATOR_MOVED
    | _COORDINATOR_LATER
    | {
        E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        E.MEMBER_ID_REQUIRED: Reaction.TAKE_MEMBER_ID,
        E.REBALANCE_IN_PROGRESS: Reaction.RETRY,
    },
    Reaction.TELL,
)
SYNC: Final = ReactionTable(
    _COORDINATOR_MOVED
    | _COORDINATOR_LATER
    | {
        E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    },
    Reaction.TELL,
)
HEARTBEAT: Final = ReactionTable(
    _COORDINATOR_MOVED
    | {
        E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        E.FENCED_INSTANCE_ID: Reaction.TELL,
        E.GROUP_AUTHORIZATION_FAILED: Reaction.TELL,
    },
    Reaction.RETRY,
)
CONSUMER_GROUP_HEARTBEAT: Final = ReactionTable(
    _COORDINATOR_MOVED
    | _COORDINATOR_LATER
    | dict.fromkeys((E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH), Reaction.FORGET_GENERATION)
    | dict.fromkeys(
        (
            E.FENCED_INSTANCE_ID,
            E.UNRELEASED_INSTANCE_ID,
            E.UNSUPPORTED_ASSIGNOR,
            E.UNSUPPORTED_VERSION,
            E.INVALID_REQUEST,
            E.GROUP_MAX_SIZE_REACHED,
            E.GROUP_AUTHORIZATION_FAILED,
            E.GROUP_ID_NOT_FOUND,
        ),
        Reaction.END,
    ),
    Reaction.TELL,
)
"""INVALID_REGULAR_EXPRESSION and TOPIC_AUTHORIZATION_FAILED are told: another subscription may help."""
COMMIT: Final = ReactionTable(
    _COORDINATOR_MOVED
    | {
        E.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
        E.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        E.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
        E.STALE_MEMBER_EPOCH: Reaction.RETRY,
        E.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        E.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        E.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
    },
    Reaction.TELL,
)
"""The application gets the result where it waits for it or has a callback. An unknown topic is tried a few times: see `engine.commits`."""
OFFSET_FETCH: Final = ReactionTable(
    _LEADER_MOVED
    | _NO_TOPIC
    | _LATER
    | _BROKEN
    | _COORDINATOR_MOVED
    | dict.fromkeys((E.COORDINATOR_LOAD_IN_PROGRESS, E.UNSTABLE_OFFSET_COMMIT), Reaction.RETRY),
    Reaction.TELL,
)
LIST_OFFSETS: Final = ReactionTable(_LEADER_MOVED | _NO_TOPIC | _LATER | _BROKEN, Reaction.TELL)
EPOCH_END: Final = ReactionTable({E.TOPIC_AUTHORIZATION_FAILED: Reaction.TELL}, Reaction.REFRESH)
FETCH: Final = ReactionTable(
    _LEADER_MOVED
    | _NO_TOPIC
    | _LATER
    | _BROKEN
    | dict.fromkeys((E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH, E.FETCH_SESSION_TOPIC_ID_ERROR), Reaction.NEW_SESSION)
    | {E.OFFSET_OUT_OF_RANGE: Reaction.RESET},
    Reaction.TELL,
)
"""What a consumer tells the application of a partition, such as CORRUPT_MESSAGE, it sends again all the same, as Java and librdkafka do; so
it does with OffsetFetch, ListOffsets and OffsetForLeaderEpoch."""
