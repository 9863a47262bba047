"""The schemas against the values they describe."""

import dataclasses

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.columnar import COLUMNS
from ottla.groups.events import EventMember, GroupEvent
from ottla.groups.log.arrow.decoder import GROUP_RECORD_TYPES
from ottla.history.group_history import histories_of_events
from ottla.spark.pipelines.rebalances import rebalance_row
from ottla.spark.schemas import EVENT_MEMBER, GROUP_EVENT, GROUP_EVENTS, GROUP_RECORDS, KAFKA, KAFKA_WITH_HEADERS, REBALANCES


def _fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_group_events_have_every_field_of_the_event():
    assert GROUP_EVENT.fieldNames() == _fields(GroupEvent)
    assert EVENT_MEMBER.fieldNames() == _fields(EventMember)
    assert GROUP_EVENTS.fieldNames() == ["partition", "offset", *_fields(GroupEvent)]


def test_rebalances_have_every_column_of_a_row():
    event = GroupEvent(at_ms=1, group="g", kind="trigger", generation=0, state_from="Empty", state_to="", trigger="JOIN_NEW")
    (rebalance,) = histories_of_events([event])["g"].rebalances
    assert REBALANCES.fieldNames() == list(rebalance_row(rebalance))


def test_the_kafka_columns_are_those_that_are_decoded():
    assert KAFKA.fieldNames() == list(COLUMNS)
    assert KAFKA_WITH_HEADERS.fieldNames() == [*COLUMNS, "headers"]
    assert KAFKA.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )


def test_group_records_have_the_columns_that_are_decoded():
    assert from_arrow_schema(pa.schema(GROUP_RECORD_TYPES.items())).simpleString() == GROUP_RECORDS.simpleString()
