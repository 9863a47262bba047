"""The names of epochs against the tables of the offsets topic's records, of which they are fields."""

from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES
from ottla.spark.pipelines.group_generations import EPOCH_FIELDS, GROUP_METADATA


def test_epochs_are_fields_of_their_records():
    for number, name in EPOCH_FIELDS.items():
        assert name in OFFSETS_TOPIC_TYPES[number].value.names()
    types = OFFSETS_TOPIC_TYPES.items()
    epochs = {number for number, each in types if any(name.lower().endswith("epoch") for name in each.value.names())}
    assert epochs - set(EPOCH_FIELDS) == {0, 1, 19, 23}  # leader epochs, and those of a topology


def test_a_stream_keeps_no_json_and_no_commits():
    assert {"record", "committed_offset"}.isdisjoint(GROUP_METADATA.fieldNames())
