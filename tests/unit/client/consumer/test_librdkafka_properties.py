"""Every property that librdkafka knows for a consumer: confluent-kafka is asked whether it knows a name, and ours takes it."""

import ctypes
import sys
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla.client.consumer.properties import parse_properties
from ottla.config.client_properties import PROPERTIES, PropertyError, read_properties
from ottla.config.client_property import Client, Effect

BASE = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "on_commit", "oauth_cb")
SPELLINGS = {name: row for row in PROPERTIES.values() for name in (row.librdkafka, *row.also) if name and Client.CONSUMER in row.support}
ROWS = SPELLINGS | {name: row for name, row in PROPERTIES.items() if Client.CONSUMER in row.support}

# What is refused because ignoring it would be unsafe, or change what the program gets.
REFUSED = {
    *("plugin.library.paths", "topic.blacklist"),
    *("sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal"),
    *("sasl.kerberos.service.name", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list", "ssl.engine.location"),
    *("ssl.keystore.password", "ssl.providers", "ssl.sigalgs.list"),
}


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


def documented() -> dict[str, str]:
    """The names of librdkafka's CONFIGURATION.md, as the library itself prints it, with their defaults."""
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
    return {row[0]: row[3] for row in rows if row[0] != "Property" and not row[0].startswith("---")}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_property_that_librdkafka_knows(name: str) -> None:
    value: Any = print if name in CALLBACKS else {} if name == "default.topic.config" else "x"
    if not knows(name, value):
        return
    support = ROWS[name].support[Client.CONSUMER]
    if name in REFUSED:
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
    for name, default in documented().items():
        if default and ROWS[name].support[Client.CONSUMER].effect is not Effect.REFUSED:
            try:
                parse_properties({**BASE, name: default})
            except ValueError as error:
                refusals[name] = str(error)
    assert refusals == {"check.crcs": "check.crcs can only be true: checksums are always checked"}
    assert {name for name in documented() if knows(name, "x") and ROWS[name].support[Client.CONSUMER].effect is Effect.REFUSED} == REFUSED
