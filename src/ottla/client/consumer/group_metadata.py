"""A member as bytes that confluent-kafka's transactional producer reads (librdkafka: `rd_kafka_consumer_group_metadata_write`)."""

import struct
from typing import Final

_MAGIC: Final = b"CGMDv2:"


def encode_group_metadata(group_id: str, generation: int, member_id: str, instance_id: str | None) -> bytes:
    """Group, generation and member. The number is in the machine's own byte order, as librdkafka writes it."""
    texts = group_id.encode() + b"\0" + member_id.encode() + b"\0"
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return _MAGIC + struct.pack("=i", generation) + texts + instance
