"""A short run of the fuzzer, and what it says when something is wrong."""

import random
from pathlib import Path

import pytest

from ottla.broker import Broker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from trials.fuzz.frames import PAIRS, broken, frame, sized
from trials.fuzz.fuzz import TOPIC, Fuzz, HonestProducer, Wrong, run_seed


def test_a_second_of_it(tmp_path: Path) -> None:
    assert "honest records" in run_seed(7, 1, tmp_path)


def test_a_record_that_is_gone_ends_the_run_with_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HonestProducer, "missing", lambda *_: [3])
    with pytest.raises(Wrong, match=r"seed 8, after .*the first at offset 3"):
        run_seed(8, 0.5, tmp_path)


def test_a_traceback_in_the_log_is_wrong(tmp_path: Path) -> None:
    fuzz = Fuzz(9, tmp_path)
    fuzz._broker.log_path.write_text("INFO started\nTraceback (most recent call last):\n")
    with pytest.raises(Wrong, match="traceback"):
        fuzz._check_log()


# --- the honest misses what is gone, and only that


def test_what_was_acknowledged_is_found() -> None:
    with Broker() as broker:
        honest = HonestProducer()
        honest.create(broker.bootstrap_servers)
        for _ in range(3):
            honest.write(broker.bootstrap_servers)
        assert len(honest.acknowledged) == 3
        assert honest.missing(broker.bootstrap_servers) == []


def test_what_is_gone_is_missed() -> None:
    with Broker() as broker:
        honest = HonestProducer()
        honest.create(broker.bootstrap_servers)
        honest.write(broker.bootstrap_servers)
        honest.write(broker.bootstrap_servers)
        honest.acknowledged[0] = b"another"
        honest.acknowledged[7] = b"never there"
        assert honest.missing(broker.bootstrap_servers) == [0, 7]
        with RawClient(broker.bootstrap_servers) as client:
            client.call(ApiKey.DELETE_TOPICS, 5, topic_names=[TOPIC], timeout=1000)


# --- the same seed gives the same frames; every API can be made, plausible and strange


def test_a_seed_gives_the_same_bytes() -> None:
    def made(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [broken(frame(*rng.choice(PAIRS), rng=rng), rng) for _ in range(50)]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_strange_values_are_drawn_for_nearly_every_api() -> None:
    rng = random.Random(3)
    varied = [pair for pair in PAIRS if len({frame(*pair, rng) for _ in range(50)}) > 1]
    assert len(varied) > 0.9 * len(PAIRS)


def test_frames_stand_behind_their_sizes() -> None:
    assert sized([b"ab", b"c"]) == b"\0\0\0\2ab\0\0\0\1c"
