"""Signatures of rebalances in which no member came or went: topics, subscriptions, assignors, a coordinator that moved, or nothing."""

from typing import Final

from ottla.history.rounds.round import Round
from ottla.history.rounds.subscriptions import topics_resubscribed
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Source
from ottla.history.verdicts import change_conditions as conditions
from ottla.history.verdicts.rule import Confidence, Rule

_C = Cause
_LOG, _TOPIC, _HIGH, _MEDIUM, _LOW = Source.BROKER_LOG, Source.OFFSETS_TOPIC, Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
_ANY: Final = {
    _C.TOPIC_CHANGE: 3.0,
    _C.SUBSCRIPTION: 3.0,
    _C.COOP_FOLLOWUP: 2.0,
    _C.LEADER_REJOIN_SPURIOUS: 2.0,
    _C.ENFORCED: 0.5,
    _C.COORDINATOR_MOVE: 0.5,
    _C.ASSIGNOR_CHANGE: 0.2,
}

CHANGE_RULES: Final[tuple[Rule[Round], ...]] = (
    Rule(
        name="rejoined without a reason",
        source=_LOG,
        condition="Leader re-joining, or Updating metadata for a member, and no reason: every client but Java's",
        weights=_ANY,
        confidence=_MEDIUM,
        holds=conditions.is_silent_rejoin,
    ),
    Rule(
        name="an epoch alone",
        source=_LOG,
        condition="KIP-848: the group epoch was increased and no member came or went",
        weights={_C.TOPIC_CHANGE: 3, _C.SUBSCRIPTION: 3, _C.ASSIGNOR_CHANGE: 0.2, _C.MIGRATION: 0.2},
        confidence=_MEDIUM,
        holds=conditions.is_epoch_alone,
    ),
    Rule(
        name="a generation alone",
        source=_TOPIC,
        condition="a new generation of the same members",
        weights=_ANY,
        confidence=_MEDIUM,
        holds=conditions.is_list_alone,
    ),
    Rule(
        name="metadata changed",
        source=_LOG,
        condition="the client's reason: cached metadata has changed",
        weights={_C.TOPIC_CHANGE: 10, _C.COORDINATOR_MOVE: 0.3, _C.LEADER_REJOIN_SPURIOUS: 0.2, _C.SUBSCRIPTION: 0.2},
        confidence=_HIGH,
        holds=conditions.metadata_changed_reason,
    ),
    Rule(
        name="subscription changed",
        source=_LOG,
        condition="the client's reason: (the) subscription has changed, or the assignment does not match it",
        weights={_C.SUBSCRIPTION: 1},
        confidence=_HIGH,
        holds=conditions.subscription_reason,
    ),
    Rule(
        name="has to revoke",
        source=_LOG,
        condition="the client's reason: need to revoke partitions and re-join; Streams: followup rebalance",
        weights={_C.COOP_FOLLOWUP: 1},
        confidence=_HIGH,
        holds=conditions.revoke_reason,
    ),
    Rule(
        name="enforced",
        source=_LOG,
        condition="the client's reason: rebalance enforced by user; Connect: requested rejoin",
        weights={_C.ENFORCED: 1},
        confidence=_HIGH,
        holds=conditions.enforced_reason,
    ),
    Rule(
        name="a reason of the application's own",
        source=_LOG,
        condition="a reason that no client sends by itself: enforceRebalance takes any text",
        weights={_C.ENFORCED: 20, _C.TOPIC_CHANGE: 0.3, _C.SUBSCRIPTION: 0.3, _C.LEADER_REJOIN_SPURIOUS: 0.3},
        confidence=_HIGH,
        holds=conditions.own_reason,
    ),
    Rule(
        name="coordinator not available",
        source=_LOG,
        condition="the client's reason names CoordinatorLoadInProgress, NotCoordinator or CoordinatorNotAvailable",
        weights={_C.COORDINATOR_MOVE: 1},
        confidence=_HIGH,
        holds=conditions.coordinator_reason,
    ),
    Rule(
        name="the coordinator had moved",
        source=_LOG,
        condition=f"the group was loaded or unloaded in the last {conditions.MOVED_WITHIN_MS // 1000} s, on the same clock",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COORDINATOR_MOVE: 40.0},
        confidence=_MEDIUM,
        holds=conditions.is_coordinator_moved,
    ),
    Rule(
        name="all subscribe to other topics",
        source=_TOPIC,
        condition="each of several members subscribes to other topics than before, at once or one after the other: a pattern does so when "
        "a topic is created or deleted",
        weights={_C.TOPIC_CHANGE: 12, _C.SUBSCRIPTION: 1},
        confidence=_MEDIUM,
        holds=conditions.all_resubscribed,
    ),
    Rule(
        name="a topic that had no partitions is not subscribed any more",
        source=Source.GROUP_EVENTS,
        condition="a member subscribes to fewer topics, and nothing was assigned from those: a client notices late that a topic is deleted",
        weights={_C.TOPIC_CHANGE: 20, _C.SUBSCRIPTION: 1},
        confidence=_MEDIUM,
        holds=conditions.dropped_topic_without_partitions,
    ),
    Rule(
        name="other topics subscribed",
        source=_TOPIC,
        condition="members subscribe to other topics than before",
        weights={_C.SUBSCRIPTION: 8, _C.TOPIC_CHANGE: 2, _C.COORDINATOR_MOVE: 0.1},
        confidence=_HIGH,
        holds=topics_resubscribed,
    ),
    Rule(
        name="a topic subscribed just before is assigned",
        source=_TOPIC,
        condition="members subscribed to other topics in the rebalance before, and the leader knew no partitions of these yet",
        weights={_C.SUBSCRIPTION: 8, _C.TOPIC_CHANGE: 1, _C.COORDINATOR_MOVE: 0.1},
        confidence=_MEDIUM,
        holds=conditions.assigns_topic_subscribed_before,
    ),
    Rule(
        name="other partitions assigned",
        source=_TOPIC,
        condition="partitions are assigned that were in no assignment before, or are gone from it, and the subscriptions are the same",
        weights={_C.TOPIC_CHANGE: 10, _C.SUBSCRIPTION: 3, _C.COOP_FOLLOWUP: 0.5, _C.COORDINATOR_MOVE: 0.1},
        confidence=_HIGH,
        holds=conditions.partitions_changed,
    ),
    Rule(
        name="a subscribed topic is gone",
        source=_TOPIC,
        condition="a topic is in no assignment any more, and members still subscribe to it",
        weights={_C.TOPIC_CHANGE: 30, _C.SUBSCRIPTION: 1, _C.COORDINATOR_MOVE: 1},
        confidence=_HIGH,
        holds=conditions.subscribed_topic_is_gone,
    ),
    Rule(
        name="nothing changed",
        source=_TOPIC,
        condition="members, subscriptions, assigned partitions and assignor are those of the generation before",
        weights={_C.LEADER_REJOIN_SPURIOUS: 10, _C.ENFORCED: 3, _C.COORDINATOR_MOVE: 1, _C.SUBSCRIPTION: 0.2, _C.TOPIC_CHANGE: 0.2},
        confidence=_MEDIUM,
        holds=conditions.nothing_changed,
    ),
    Rule(
        name="revoked partitions assigned",
        source=_TOPIC,
        condition="partitions that the assignment before had taken away are assigned again",
        weights={_C.COOP_FOLLOWUP: 20, _C.LEADER_REJOIN_SPURIOUS: 0.5, _C.TOPIC_CHANGE: 0.5, _C.SUBSCRIPTION: 0.5},
        confidence=_HIGH,
        holds=conditions.gave_back,
    ),
    Rule(
        name="another assignor",
        source=_TOPIC,
        condition="the assignment before and after are of different assignors",
        weights={_C.ASSIGNOR_CHANGE: 1},
        confidence=_HIGH,
        holds=conditions.is_protocol_changed,
    ),
    Rule(
        name="right after a change of members",
        source=_LOG,
        condition=f"within {conditions.RIGHT_AFTER_MS} ms of a rebalance in which members came or went",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 4.0, _C.LEADER_REJOIN_SPURIOUS: 5.0},
        confidence=_LOW,
        holds=conditions.follows,
    ),
    Rule(
        name="right after a first assignment",
        source=_LOG,
        condition="the same, of a group with one member, which has nothing to revoke",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 0.1, _C.LEADER_REJOIN_SPURIOUS: 8.0},
        confidence=_LOW,
        holds=conditions.follows_first_assignment,
    ),
    Rule(
        name="an eager assignor",
        source=_TOPIC,
        condition="range, roundrobin and sticky revoke everything at once: there is no second half",
        weights=dict.fromkeys(_ANY, 1.0) | {_C.COOP_FOLLOWUP: 0.01},
        confidence=_LOW,
        holds=conditions.is_eager,
    ),
    Rule(
        name="the metadata hash changed",
        source=_LOG,
        condition="KIP-848: the hash of the subscribed topics differs, or topics were scanned for a pattern",
        weights={_C.TOPIC_CHANGE: 4, _C.SUBSCRIPTION: 3},
        confidence=_MEDIUM,
        holds=conditions.topics_scanned,
    ),
)
