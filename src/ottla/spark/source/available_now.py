"""Checks of Trigger.AvailableNow: the ends that a query fixed at its beginning must stay valid until it has read them. Pure.

Spark's own Kafka source makes the same checks before every micro-batch, whatever failOnDataLoss says.
"""

from typing import Final

from ottla.spark.options.positions import listed
from ottla.spark.source.stream_offsets import Offsets

_AGAIN: Final = "Restart the query."


class AvailableNowError(Exception):
    """The topics changed while a query with Trigger.AvailableNow was reading them."""


def verify_end(end: Offsets, goal: Offsets, latest: Offsets) -> None:
    """Check a micro-batch's `end` against the query's `goal` and the latest offsets. Raises AvailableNowError."""
    ends, goals, now = end.by_partition, goal.by_partition, latest.by_partition
    if set(ends) != set(goals):
        raise AvailableNowError(
            "Kafka data source in Trigger.AvailableNow has other topic partitions at the end of a micro-batch than it set out for."
            f" Set out for: {listed(goals)}. End: {listed(ends)}. {_AGAIN}"
        )
    further = {partition for partition, offset in ends.items() if offset > goals[partition]}
    if further:
        raise AvailableNowError(
            f"With Trigger.AvailableNow the end of a micro-batch lies behind what the query set out for: {listed(further)}. {_AGAIN}"
        )
    lost = set(ends) - set(now)
    if lost:
        raise AvailableNowError(
            f"Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow: {listed(lost)}. {_AGAIN}"
        )
    shorter = {partition for partition, offset in ends.items() if offset > now[partition]}
    if shorter:
        raise AvailableNowError(
            "Some of partitions in Kafka topic(s) report available offset which is less than end offset during running query with"
            f" Trigger.AvailableNow: {listed(shorter)}. {_AGAIN}"
        )
