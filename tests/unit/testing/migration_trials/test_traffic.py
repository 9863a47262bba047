"""The traffic of a trial, on our broker; transactions are written in trials on Apache Kafka."""

from ottla.testing import Broker
from ottla.testing.kit.waiting import wait_until
from ottla.testing.migration_trials.reading import committed, has_members, read_topic
from ottla.testing.migration_trials.records import RecordMaker, mark_of
from ottla.testing.migration_trials.traffic import LiveConsumer, LiveWriter, Writer, fill, group_positions


def test_what_is_written_is_acknowledged_and_read_by_a_member(ottla_broker: Broker) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 3)
    writer, maker = Writer(servers, "flights"), RecordMaker(1, partitions=3, keys=20)
    fill(writer, maker, 300)
    assert sum(maker.written.values()) == 300
    live, member = LiveWriter(writer, maker, None, per_second=500), LiveConsumer(servers, "g", "flights", per_second=20_000)
    live.start()
    member.start()
    wait_until(lambda: member.read > 350, "a member that reads what is still written")
    assert has_members(servers, ["other", "g"])
    with live.paused():
        there = sum(maker.written.values())
        assert len(list(read_topic(servers, "flights"))) == there
    wait_until(lambda: sum(maker.written.values()) > there, "a producer that goes on")
    live.close()
    member.close()
    assert not has_members(servers, ["other", "g"])
    records = list(read_topic(servers, "flights"))
    assert writer.failures == []
    assert len(records) == sum(maker.written.values()) > 350
    assert {mark_of(each) for each in records} == {(name, number) for name, count in maker.written.items() for number in range(count)}
    assert sum(committed(servers, "g", "flights").values()) == member.read


def test_one_group_is_behind_another_and_the_third_crosses_them():
    positions = group_positions({0: 100, 1: 200, 2: 300})
    ahead, behind, crossing = positions["trial-ahead"], positions["trial-behind"], positions["trial-crossing"]
    assert all(0 < behind[partition] < ahead[partition] for partition in range(3))
    assert crossing[0] < behind[0]
    assert crossing[1] > ahead[1]
    assert 2 not in crossing
