"""Damaged data directories of brokers that were killed or stopped: no loss of an acknowledged record goes without a line in the log."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.processes import OttlaProcess, StartFailed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

METADATA_LOG = f"__cluster_metadata-0/{0:020d}.log"
FLIGHTS_LOG = f"flights-0/{0:020d}.log"


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OttlaProcess]:
    """Our broker as a process, with its data in `data_dir`; three topics, and three records in `flights`."""
    with OttlaProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap_servers) as client:
            for name in ("flights", "hotels", "cars"):
                create_topic(client, name)
            for number in range(3):
                records = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"flight %d" % number)]))
                data = [{"name": "flights", "partition_data": [{"index": 0, "records": records}]}]
                answer = client.call(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=data)
                assert answer.responses[0].partition_responses[0].base_offset == number
        yield broker


def refused(broker: OttlaProcess) -> str:
    with pytest.raises(StartFailed) as failed:
        broker.start()
    last = str(failed.value)
    assert "Traceback" not in last
    return last


def until_said(broker: OttlaProcess, pattern: str) -> "re.Match[str]":
    """Waits until the broker has logged it: lines are written by a thread of their own."""
    return wait_until(lambda: re.search(pattern, broker.log_path.read_text()), lambda: f"{pattern!r} in: {broker.log_path.read_text()}")


def topics(broker: OttlaProcess) -> set[str]:
    with RawClient(broker.bootstrap_servers) as client:
        return {each.name for each in client.call(ApiKey.METADATA, 12, topics=None).topics}


def end_of_flights(broker: OttlaProcess) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        asked = [{"name": "flights", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        return int(client.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=asked).topics[0].partitions[0].offset)


def test_a_flipped_byte_in_the_metadata_log_of_a_killed_broker_stops_the_start(ours: OttlaProcess) -> None:
    ours.kill()
    path = ours.data_dir / METADATA_LOG
    whole = path.read_bytes()
    position, header = list(split_batches(whole))[-2]
    damaged = bytearray(whole)
    damaged[position + 80] ^= 1
    path.write_bytes(damaged)
    said = refused(ours)
    assert f"{METADATA_LOG} is damaged at byte {position}" in said
    assert f"from offset {header.base_offset} on are lost" in said
    assert "restore the data directory from a copy" in said
    assert path.read_bytes() == damaged, "nothing was changed"
    path.write_bytes(whole)
    ours.start()
    assert {"flights", "hotels", "cars"} <= topics(ours)


@pytest.mark.parametrize("bytes_left", [0, 100])
def test_an_emptied_metadata_log_stops_the_start_after_a_clean_end(ours: OttlaProcess, bytes_left: int) -> None:
    ours.stop()
    path = ours.data_dir / METADATA_LOG
    whole = path.read_bytes()
    path.write_bytes(whole[:bytes_left])
    assert re.search(rf"{METADATA_LOG} is damaged|__cluster_metadata-0 ends at offset 0, but was synced up to offset \d+", refused(ours))
    path.write_bytes(whole)
    ours.start()
    assert {"flights", "hotels", "cars"} <= topics(ours)


def test_without_meta_properties_the_directory_is_refused(ours: OttlaProcess) -> None:
    ours.stop()
    (ours.data_dir / "meta.properties").unlink()
    assert "meta.properties is missing, but the directory holds data" in refused(ours)
    assert not (ours.data_dir / "meta.properties").exists()


def test_records_that_are_gone_after_a_clean_end_are_named(ours: OttlaProcess) -> None:
    ours.stop()
    path = ours.data_dir / FLIGHTS_LOG
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 3])
    ours.start()
    assert end_of_flights(ours) == 1
    until_said(ours, r"ERROR flights-0: flights-0 ends at offset 1, but was synced up to offset 3 .*: offsets 1 to 2 are lost")


def test_a_partition_directory_that_is_gone_is_named_at_the_start(ours: OttlaProcess) -> None:
    ours.stop()
    shutil.rmtree(ours.data_dir / "flights-0")
    ours.start()
    until_said(ours, "ERROR 1 partitions had records .* their directories are gone: flights-0")


def test_a_log_start_behind_the_end_is_named(ours: OttlaProcess) -> None:
    ours.stop()
    (ours.data_dir / "log-start-offset-checkpoint").write_text("0\n1\nflights 0 1000\n")
    ours.start()
    assert end_of_flights(ours) == 1000
    until_said(ours, "lets the log start at offset 1000, but flights-0 ends at offset 3: offsets 0 to 2 were removed")


def test_a_directory_that_is_deleted_under_a_running_broker_takes_no_more_records(ours: OttlaProcess) -> None:
    """Records of the second after the deletion may be acknowledged; the line in the log names them."""
    shutil.rmtree(ours.data_dir)
    acknowledged, error_code, deadline = -1, 0, time.monotonic() + 30
    with RawClient(ours.bootstrap_servers) as client:
        while error_code == 0 and time.monotonic() < deadline:
            records = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"late")]))
            data = [{"name": "flights", "partition_data": [{"index": 0, "records": records}]}]
            answer = client.call(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=data).responses[0].partition_responses[0]
            error_code = int(answer.error_code)
            acknowledged = max(acknowledged, int(answer.base_offset))
    assert error_code == ErrorCode.KAFKA_STORAGE_ERROR
    until_said(ours, f"the data directory {ours.data_dir} is gone")
    if acknowledged >= 0:
        named = until_said(ours, r"flights-0 with offsets (\d+) to (\d+), which may have been acknowledged after that")
        assert int(named[1]) <= acknowledged <= int(named[2])
    assert not ours.data_dir.exists()
