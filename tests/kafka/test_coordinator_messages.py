"""Every message that Apache Kafka's group coordinators log about a group is known: read from the class files of its jar."""

import struct
import zipfile
from itertools import product
from pathlib import Path

import pytest

from ottla.history.sources.broker_log import BrokerLogParser
from tests.support.reference.apache_kafka import VERSION

JAR = Path(__file__).parents[2] / ".cache" / f"apache-kafka-{VERSION}" / f"kafka-group-coordinator-{VERSION}.jar"
CLASSES = (
    "GroupMetadataManager",
    "GroupCoordinatorShard",
    "OffsetMetadataManager",
    "classic/ClassicGroup",
    "modern/consumer/ConsumerGroup",
)
PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
VALUES = ("3", "Stable", "consumer", "uniform")
CONSTANT_BYTES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""The size of each kind of constant in a class file, but text (1)."""
NOT_OF_CLASSIC_OR_CONSUMER = (
    "hare",
    "unknown group type",
    "[GroupId {}] {}.",
    "treams",
    "topology",
    "ransactional",
    "Replay",
    "Receive",
    "materialization",
)
"""In messages of share and streams groups, transactions, records that are replayed, and in one that has only a place "
"for an error's text."""


def texts_of_class(data: bytes) -> list[str]:
    """The string constants of a class file."""
    at, index, count = 10, 1, struct.unpack_from(">H", data, 8)[0]
    texts: dict[int, str] = {}
    strings = []
    while index < count:
        kind = data[at]
        if kind == 1:
            size = struct.unpack_from(">H", data, at + 1)[0]
            texts[index] = data[at + 3 : at + 3 + size].decode(errors="replace")
            at += 3 + size
        else:
            if kind == 8:
                strings.append(struct.unpack_from(">H", data, at + 1)[0])
            at += 1 + CONSTANT_BYTES[kind]
        index += 2 if kind in (5, 6) else 1
    return [texts[each] for each in strings]


def templates() -> list[str]:
    if not JAR.exists():
        return []
    with zipfile.ZipFile(JAR) as jar:
        texts = [text for name in CLASSES for text in texts_of_class(jar.read(f"org/apache/kafka/coordinator/group/{name}.class"))]
    return sorted({text for text in texts if "{}" in text and not any(word in text for word in NOT_OF_CLASSIC_OR_CONSUMER)})


@pytest.mark.kafka
@pytest.mark.skipif(not JAR.exists(), reason="the jars of Apache Kafka are not in .cache")
def test_each_message_of_the_coordinator_is_known() -> None:
    found = templates()
    assert len(found) > 50
    unknown = []
    for template in found:
        pieces = template.split("{}")
        fillings = product(VALUES, repeat=min(4, len(pieces) - 1))
        parser = BrokerLogParser()
        for filling in fillings:
            values = [*filling, *[VALUES[0]] * (len(pieces) - 1 - len(filling)), ""]
            message = "".join(piece + value for piece, value in zip(pieces, values, strict=True))
            if parser.parse(PREFIX + message) is not None:
                break
        else:
            unknown.append(template)
    assert unknown == []
