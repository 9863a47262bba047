"""What is read of topics and groups, from our broker."""

from ottla.testing import Broker
from ottla.testing.migration_trials.reading import Ends, commit, committed, read_topic
from ottla.testing.migration_trials.records import Record


def test_every_record_is_read_as_it_was_written(ottla_broker: Broker) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 3)
    ottla_broker.produce("flights", [(b"key", b"value"), (b"key", None)], headers={"a": b"1", "b": None}, timestamp_ms=42, partition=2)
    ottla_broker.produce("flights", [b"alone"], timestamp_ms=43, partition=0)
    headers = (("a", b"1"), ("b", None))
    expected = [Record(0, 0, None, b"alone", 43, ()), Record(2, 0, b"key", b"value", 42, headers), Record(2, 1, b"key", None, 42, headers)]
    assert sorted(read_topic(servers, "flights"), key=lambda each: each[:2]) == expected
    ends = Ends(servers)
    assert ends.of("flights") == {0: 1, 1: 0, 2: 2}
    assert ends.of("missing") == {}
    assert ends.of("missing") == {}  # it was not made by asking


def test_offsets_are_committed_and_read(ottla_broker: Broker) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 3)
    commit(servers, "g", "flights", {0: 5, 2: 7})
    assert committed(servers, "g", "flights") == {0: 5, 2: 7}
    assert committed(servers, "h", "flights") == {}
    assert committed(servers, "g", "missing") == {}
