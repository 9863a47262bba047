"""An honest producer beside the hostile ones: records what was acknowledged, and reads it back at the end."""

import time
from contextlib import suppress

from ottla.core.errors import ErrorCode
from ottla.core.model import Record
from ottla.core.records.batch import decode_batch, encode_batch, split_batches
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import Disconnected, RawClient
from ottla.testing.clients.topics import create_topic

TOPIC = "ledger"


class Ledger:
    """Records of one partition by their offsets."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self._written = 0

    def create(self, servers: str) -> None:
        """Create the topic."""
        create_topic(servers, TOPIC)

    def write(self, servers: str) -> None:
        """Produce one record; without an acknowledgement it does not count."""
        self._written += 1
        value = str(self._written).encode()
        batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, value)]))
        topic_data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        with suppress(Disconnected), RawClient(servers) as client:
            (part,) = client.call(ApiKey.PRODUCE, 8, acks=-1, timeout=10_000, topic_data=topic_data).responses[0].partition_responses
            if part.error_code == ErrorCode.NONE:
                self.acknowledged[part.base_offset] = value

    def missing(self, servers: str) -> list[int]:
        """Offsets whose acknowledged record is not there, or is another one."""
        found: dict[int, bytes | None] = {}
        offset = 0
        with RawClient(servers) as client:
            while True:
                part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
                values = {"replica_id": -1, "max_wait": 0, "max_bytes": 1 << 20, "session_epoch": -1}
                answer = client.call(ApiKey.FETCH, 11, **values, topics=[{"topic": TOPIC, "partitions": [part]}])
                data = bytes(answer.responses[0].partitions[0].records or b"")
                records = [record for at, _ in split_batches(data) for record in decode_batch(data, at)]
                if not records:
                    return sorted(offset for offset, value in self.acknowledged.items() if found.get(offset) != value)
                found.update((record.offset, record.value) for record in records)
                offset = records[-1].offset + 1
