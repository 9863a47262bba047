"""The trial with the lying broker runs, small, and its oracle catches a client that skips what it cannot read."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from trials.lying_broker.lies import LIES, RECORDS
from trials.lying_broker.lying_broker import REQUESTS_PER_SECOND_MAX, Report, World, wrong_with

CHECKSUM = "FETCH: a wrong checksum"
SKIPS = """
import ottla, trials.lying_broker.readers as readers
class Skipping(ottla.Consumer):
    def poll(self, timeout=None):
        try:
            return super().poll(timeout)
        except ottla.KafkaException:
            for partition in self.position(self.assignment()):
                self.seek(ottla.TopicPartition(partition.topic, partition.partition, max(partition.offset, 0) + 20))
            raise
ottla.Consumer = Skipping
readers.main("consumer")
"""


def test_a_hundred_lies_and_more() -> None:
    assert len(LIES) > 200
    assert {f"FETCH: {what}" for what in RECORDS} <= LIES.keys()


def test_a_consumer_gets_every_record_after_the_lies() -> None:
    with World([sys.executable, "-m", "trials.lying_broker.readers", "consumer"]) as world:
        for name in (CHECKSUM, "METADATA: port 70000"):
            report = world.tell(LIES[name], 2.5)
            assert wrong_with(report, is_credible=False) == []
            assert world.lying.requests, "it was asked"
        assert ApiKey.FETCH in {api for _, api in world.lying.requests}
        assert report.summary["next_offsets"] == [120, 120]


def test_a_client_that_skips_what_it_cannot_read_is_caught() -> None:
    with World([sys.executable, "-c", SKIPS]) as world:
        wrong = wrong_with(world.tell(LIES[CHECKSUM], 2.5, 2.0), is_credible=False)
    assert any("skipped" in each or "are missing" in each for each in wrong)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"requests": REQUESTS_PER_SECOND_MAX + 1}, "requests a second"),
        ({"grown_bytes": 201_000_000}, "201 MB"),
        ({"is_complete": False}, "records are missing"),
        ({"committed": {("lies", 1): 121}}, "1 is committed at 121, handed out up to 120"),
        ({"crash": "KeyError"}, "crash: KeyError"),
        ({"close_s": 13.0}, "close took 13 s"),
        ({"wrong": ["0@3 to 9 skipped"]}, "0@3 to 9 skipped"),
    ],
)
def test_each_thing_that_must_not_be_is_wrong(change: Mapping[str, Any], words: str) -> None:
    summary: dict[str, Any] = {"next_offsets": [120, 120], "wrong": [], "errors": [], "crash": "", "close_s": 0.1}
    good = Report(summary, 3.0, 0, True, {("lies", 0): 120})
    assert wrong_with(good, is_credible=False) == []
    in_report = {name: value for name, value in change.items() if name in Report._fields}
    report = good._replace(summary=summary | {name: value for name, value in change.items() if name in summary}, **in_report)
    (problem,) = wrong_with(report, is_credible=False)
    assert words in problem
