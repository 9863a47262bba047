"""The names of epochs against the tables of the offsets topic's records, of which they are fields."""

from ottla.core.groups.log.record_schemas import RECORD_TYPES
from ottla.core.records.schema import Kind
from ottla.spark.pipelines.group_generations import EPOCH_FIELDS, GROUP_METADATA


def test_epochs_are_fields_of_their_records():
    for number, name in EPOCH_FIELDS.items():
        assert {field.name: field.kind for field in RECORD_TYPES[number].value.fields}[name] is Kind.INT32
    epochs = {number for number, each in RECORD_TYPES.items() if any(field.name.lower().endswith("epoch") for field in each.value.fields)}
    assert epochs - set(EPOCH_FIELDS) == {0, 1, 19, 23}  # leader epochs, and those of a topology


def test_a_stream_keeps_no_json_and_no_commits():
    assert {"record", "committed_offset"}.isdisjoint(GROUP_METADATA.fieldNames())
