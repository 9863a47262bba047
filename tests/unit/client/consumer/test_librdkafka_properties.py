"""Every property that librdkafka knows for a consumer: confluent-kafka is asked whether it knows a name, and ours takes it."""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from ottla.client.consumer.properties import parse_properties
from ottla.config.client_properties import PROPERTIES, PropertyError, read_properties
from ottla.config.client_property import Client, Effect, Number

BASE = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "on_commit", "oauth_cb")
SPELLINGS = {name: row for row in PROPERTIES.values() for name in (row.librdkafka, *row.also) if name and Client.CONSUMER in row.support}
ROWS = SPELLINGS | {name: row for name, row in PROPERTIES.items() if Client.CONSUMER in row.support}

# What is refused because ignoring it would be unsafe, or change what the program gets.
REFUSED = {
    *("plugin.library.paths", "topic.blacklist"),
    *("sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal"),
    *("sasl.kerberos.service.name", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list", "ssl.engine.location"),
    *("ssl.providers", "ssl.sigalgs.list"),
}
MOCKS = {"test.mock.broker.rtt", "test.mock.num.brokers"}
NOT_PRINTED = {"client.software.name", "client.software.version", "enable.sparse.connections", "metadata.request.timeout.ms"}
# librdkafka knows both and leaves them out of its own list.


def knows(name: str, value: Any) -> bool:
    """Whether confluent-kafka's Consumer knows a property; it goes on to a name that nothing knows, so that no consumer is made."""
    try:
        confluent_kafka.Consumer({"group.id": "g", name: value, "no.such.property": 1})
    except confluent_kafka.KafkaException as error:
        text = error.args[0].str()
        return not any(words in text for words in (f'property: "{name}"', "must be set through dedicated", "not settable"))
    except (TypeError, ValueError):
        return True
    raise AssertionError("confluent-kafka takes a property that nothing knows")


class Documented(NamedTuple):
    """A row of librdkafka's CONFIGURATION.md. `values`: a range, or words; "" for a text."""

    default: str
    values: str


@cache
def documented() -> dict[str, Documented]:
    """librdkafka's CONFIGURATION.md, as the library itself prints it."""
    found = list((Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*"))
    if not found or not sys.platform.startswith("linux"):
        pytest.skip("librdkafka is part of another library")
    library, libc = ctypes.CDLL(str(found[0])), ctypes.CDLL(None)
    libc.tmpfile.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.tmpfile())
    library.rd_kafka_conf_properties_show(file)
    libc.rewind(file)
    text, buffer = b"", ctypes.create_string_buffer(65_536)
    while size := libc.fread(buffer, 1, len(buffer), file):
        text += buffer.raw[:size]
    libc.fclose(file)
    rows = [[column.strip() for column in line.split("|")] for line in text.decode().splitlines() if line.count("|") > 3]
    return {row[0]: Documented(row[3], row[2]) for row in rows if row[0] != "Property" and not row[0].startswith("---")}


def takes(name: str, value: Any) -> bool:
    """Whether our table takes a value."""
    try:
        read_properties({name: value}, Client.CONSUMER)
    except PropertyError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_property_that_librdkafka_knows(name: str) -> None:
    value: Any = print if name in CALLBACKS else {} if name == "default.topic.config" else "x"
    if not knows(name, value):
        return
    support = ROWS[name].support[Client.CONSUMER]
    if name in REFUSED | MOCKS:
        with pytest.raises(PropertyError, match=f"^{name} is not supported: "):
            read_properties({name: value}, Client.CONSUMER)
    else:
        assert support.effect is not Effect.REFUSED


def test_each_of_librdkafkas_properties_has_a_row() -> None:
    names = documented()
    assert len(names) > 180
    assert names.keys() - ROWS.keys() == set()


def test_librdkafkas_defaults_are_taken() -> None:
    refusals = {}
    for name, (default, _) in documented().items():
        if default and ROWS[name].support[Client.CONSUMER].effect is not Effect.REFUSED:
            try:
                parse_properties({**BASE, name: default})
            except ValueError as error:
                refusals[name] = str(error)
    assert refusals == {"check.crcs": "check.crcs can only be true: checksums are always checked"}
    assert {name for name in documented() if knows(name, "x") and ROWS[name].support[Client.CONSUMER].effect is Effect.REFUSED} == REFUSED


def test_defaults_of_what_has_an_effect_are_librdkafkas_or_kafkas() -> None:
    other = {}
    for name, (default, _) in documented().items():
        row = ROWS[name]
        ours = row.defaults.get(Client.CONSUMER, row.default)
        if default and ours is not None and row.support[Client.CONSUMER].effect is Effect.APPLIED and str(ours).lower() != default:
            other[name] = ours
    assert other == {
        "auto.commit.interval.ms": 5_000,
        "auto.offset.reset": "latest",
        "client.id": "ottla",
        "connections.max.idle.ms": 540_000,
        "metadata.max.age.ms": 300_000,
        "reconnect.backoff.max.ms": 1_000,
        "reconnect.backoff.ms": 50,
        "socket.connection.setup.timeout.ms": 10_000,
        "socket.receive.buffer.bytes": -1,
        "socket.send.buffer.bytes": -1,
        "socket.timeout.ms": 30_000,
    }


def test_what_librdkafka_does_not_print() -> None:
    assert {name for name in NOT_PRINTED | MOCKS if not knows(name, "100") or name in documented()} == set()
    assert {name for name in NOT_PRINTED if not takes(name, "false" if name.startswith("enable.") else "100")} == set()


def test_values_of_properties_without_effect_are_checked_as_by_librdkafka() -> None:
    taken, refused = [], []
    for name, (_, values) in documented().items():
        support = ROWS[name].support[Client.CONSUMER]
        low, _, high = values.partition(" .. ")
        if support.effect in (Effect.REFUSED, Effect.FIXED) or not values:
            continue
        if high:
            good, bad = [low, high, float(high)], [int(low) - 1, int(high) + 1, "x", ""]
        elif values == "true, false":
            good, bad = [True, "True", "1", "t", 0, "F"], ["maybe", "yes", 2]
        else:
            good, bad = [*values.split(", "), *values.upper().split(", ")], ["nonsense"]
        refused += [(name, value) for value in good if not takes(name, value)]
        taken += [(name, value) for value in bad if takes(name, value) and support.effect is Effect.IGNORED]
    assert (taken, refused) == ([], [])


def produces_with(name: str, value: int) -> bool:
    """Whether confluent-kafka's Producer takes a value; it goes on to a name that nothing knows, so that no producer is made."""
    try:
        confluent_kafka.Producer({name: value, "no.such.property": 1})
    except confluent_kafka.KafkaException as error:
        return f'property "{name}"' not in error.args[0].str()
    raise AssertionError("confluent-kafka takes a property that nothing knows")


def test_a_producers_bounds_are_what_kafka_and_librdkafka_both_allow() -> None:
    wider: list[tuple[str, int]] = []
    narrower: list[tuple[str, int]] = []
    for name, row in PROPERTIES.items():
        support = row.support.get(Client.PRODUCER)
        kind = None if support is None or support.effect is not Effect.APPLIED else support.kind or row.kind
        theirs = row.librdkafka or name
        if not isinstance(kind, Number) or not isinstance(row.kind, Number) or theirs not in documented():
            continue
        for bound, beyond, of_kafka in ((kind.low, kind.low - 1, row.kind.low), (kind.high, kind.high + 1, row.kind.high)):
            if not produces_with(theirs, bound // row.unit):
                wider.append((name, bound))
            if bound != of_kafka and produces_with(theirs, beyond // row.unit):
                narrower.append((name, bound))
    assert wider == []
    # 0 has another meaning there: no limit, the size that the system chooses; metadata of age 0 would be asked for all the time.
    assert [name for name, _ in narrower] == ["connections.max.idle.ms", "metadata.max.age.ms", "receive.buffer.bytes", "send.buffer.bytes"]
