"""Streams: starting offsets, limits of a trigger, AvailableNow, the checkpoint."""

import json
from typing import Any


def test_begin_and_continue_from_the_checkpoint(contract: Any):
    topic = contract.topic(partitions=2)
    contract.place.produce(topic, ["a", "b", "c"])
    starting = json.dumps({topic: {"0": 1, "1": -1}})
    assert contract.drain(subscribe=topic, startingOffsets=starting, checkpoint="c").rows == [(0, 1, "b"), (0, 2, "c")]
    contract.place.produce(topic, ["d"], partition=1)
    assert contract.drain(subscribe=topic, startingOffsets="earliest", checkpoint="c").rows == [(1, 0, "d")]
    contract.place.produce(topic, ["e"])
    with contract.stream(subscribe=topic, checkpoint="c") as stream:
        assert stream.catch_up() == [(0, 3, "e")], "the checkpoint, not the default"
        contract.place.produce(topic, ["f"])
        assert stream.catch_up() == [(0, 3, "e"), (0, 4, "f")]
    other = contract.topic()
    contract.place.produce(other, ["g"])
    assert contract.drain(subscribe=f"{topic},{other}", checkpoint="c").rows == [(0, 0, "g")], "what is new is read from its beginning"
    missing = json.dumps({topic: {"0": 1}})
    contract.failure_of(lambda: contract.drain(subscribe=topic, startingOffsets=missing))


def test_available_now_reads_what_exists(anywhere: Any):
    topic = anywhere.topic(partitions=3)
    for partition, count in enumerate((40, 4, 1)):
        anywhere.place.produce(topic, range(count), partition=partition)

    def produce_more() -> None:
        anywhere.place.produce(topic, ["late"])

    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c"}
    stream = anywhere.drain(**options, maxOffsetsPerTrigger=20, on_batch=produce_more)
    sizes = [[sum(row[0] == partition for row in batch) for partition in range(3)] for batch in stream.batches]
    # Shares by what is left: 20/45 of 40, 4, 1; 20/26 of 23, 3; then all. A share below one is one.
    assert sizes == [[17, 1, 1], [17, 2, 0], [6, 1, 0]]
    assert [(partition, offset) for partition, offset, _ in stream.rows] == [
        (partition, offset) for partition, count in enumerate((40, 4, 1)) for offset in range(count)
    ]
    assert {value for _, _, value in anywhere.drain(**options).rows} == {"late"}


def test_a_trigger_waits_for_enough(anywhere: Any):
    topic = anywhere.topic()
    anywhere.place.produce(topic, ["a"])
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 6}
    with anywhere.stream(**options) as stream:
        assert stream.catch_up() == [(0, 0, "a")], "the first one does not wait"
        anywhere.place.produce(topic, range(4))
        assert len(stream.catch_up()) == 1
        anywhere.place.produce(topic, range(4, 7))
        stream.catch_up()
        assert [len(batch) for batch in stream.batches] == [1, 6]
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 5, "maxTriggerDelay": "1s"}
    with anywhere.stream(**options) as stream:
        assert len(stream.catch_up()) == 8
        anywhere.place.produce(topic, ["b"])
        anywhere.place.wait_until(lambda: len(stream.rows) == 9)


def test_progress_has_offsets(anywhere: Any):
    topic = anywhere.topic(partitions=2)
    anywhere.place.produce(topic, range(5))
    stream = anywhere.drain(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    first = json.loads(stream.query.recentProgress[0].json)["sources"][0]
    assert first["numInputRows"] == 3
    assert _offsets(first["endOffset"]) == {topic: {"0": 3, "1": 0}}
    assert _offsets(first["latestOffset"]) == {topic: {"0": 5, "1": 0}}, "so that anyone can compute the lag"


def _offsets(offset: Any) -> Any:
    """The offsets in it, without the topic id of Ottla's format."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return {name: partitions for name, partitions in parsed.items() if not name.startswith("#")}
