"""How many files, functions and calls of src/ottla one request, one poll and one `ottla diagnose` cross, counted by a profile hook.

Each is done once before it is counted, so that imports and first-time work stay out. Requests are counted in the broker's thread.
"""

import contextlib
import io
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ottla
from ottla.broker import Broker
from ottla.cli.main import main as command
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic

SOURCES = str(Path(ottla.__file__).parent)
LOGS = Path(__file__).parents[1] / "tests" / "data" / "logs"
calls: Counter[CodeType] = Counter()
counted_thread: list[int] = []


def hook(frame: FrameType, event: str, _argument: Any) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(SOURCES) and threading.get_ident() in counted_thread:
        calls[frame.f_code] += 1


@contextlib.contextmanager
def counting(name: str, thread: int) -> Iterator[None]:
    """Print what a thread crosses meanwhile."""
    calls.clear()
    counted_thread.append(thread)
    yield
    time.sleep(0.05)  # what the broker does after its response belongs to the request
    counted_thread.clear()
    sys.stdout.write(f"{name:16} {len({code.co_filename for code in calls}):4} files {len(calls):5} functions {calls.total():7,} calls\n")


def requests(client: RawClient, thread: int) -> None:
    """OffsetCommit, JoinGroup and Fetch: each of them twice, the second time counted."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    commit = {"group_id": "g", "topics": [{"name": "t", "partitions": [partition]}]}
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fetch = {"max_wait": 0, "min_bytes": 1, "session_epoch": -1, "topics": [{"topic": "t", "partitions": [fetched]}]}
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}]
    join = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer", "protocols": protocols}
    for group in ("first", "second"):
        for name, key, version, fields in (
            ("OffsetCommit", ApiKey.OFFSET_COMMIT, 8, commit),
            ("JoinGroup", ApiKey.JOIN_GROUP, 9, {**join, "group_id": group, "member_id": "", "group_instance_id": "i"}),
            ("Fetch", ApiKey.FETCH, 12, fetch),
        ):
            with counting(name, thread) if group == "second" else contextlib.nullcontext():
                client.call(key, version, **fields)


def poll(client: RawClient, servers: str) -> None:
    """A poll that fetches a record which was not there before."""
    consumer = ottla.Consumer({"bootstrap.servers": servers, "group.id": "c", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while consumer.poll(1) is None:
        pass
    consumer.poll(0.5)
    produce(client)
    with counting("Consumer.poll", threading.get_ident()):
        assert consumer.poll(5) is not None
    consumer.close()


def produce(client: RawClient) -> None:
    produced = {"name": "t", "partition_data": [{"index": 0, "records": encode_batch([Record(0, 0, None, b"v")])}]}
    client.call(ApiKey.PRODUCE, 9, acks=-1, timeout=1_000, topic_data=[produced])


def diagnose() -> None:
    arguments = ["diagnose", "--broker-log", str(LOGS / "apache-kafka-4.3.0.log"), "--client-log", str(LOGS / "java-4.3.0.log"), "--utc"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        command(arguments)
    with counting("ottla diagnose", threading.get_ident()), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        command(arguments)


def main() -> None:
    threading.setprofile(hook)
    sys.setprofile(hook)
    with tempfile.TemporaryDirectory() as directory, Broker(directory, config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        thread = next(thread.ident for thread in threading.enumerate() if thread.name == "ottla-broker")
        assert thread is not None
        create_topic(broker.bootstrap_servers, "t")
        with RawClient(broker.bootstrap_servers) as client:
            produce(client)
            requests(client, thread)
            poll(client, broker.bootstrap_servers)
    diagnose()


if __name__ == "__main__":
    main()
