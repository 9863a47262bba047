"""The migration in plain Python, which stands for the command in tests of the trials; tests/clients/test_migration_trial.py kills it."""

from pathlib import Path

import pytest

from ottla.testing import Broker
from ottla.testing.migration_trials.plain_copy import PlainCopy, arguments
from ottla.testing.migration_trials.reading import commit, committed, read_topic
from ottla.testing.migration_trials.records import source_of


def test_it_goes_on_where_it_ended_and_carries_groups_over(ottla_broker: Broker, tmp_path: Path) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 2)
    for partition in range(2):
        ottla_broker.produce("flights", [b"%d:%d;" % (partition, number) for number in range(4)], partition=partition)
    commit(servers, "g", "flights", {0: 3, 1: 1})
    words = f"flights moved --bootstrap-server {servers} --partitions 1 --groups g --partitioner murmur2 --plan {tmp_path / 'plan'}"
    given = arguments(words.split())
    assert PlainCopy(arguments([*words.split(), "--dry-run"])).run() == {"groups": {"g": {"replay": 0}}}
    assert list(read_topic(servers, "moved")) == []
    assert PlainCopy(given).run() == {"groups": {"g": {"replay": 0}}}
    ottla_broker.produce("flights", [b"0:4;"], partition=0)
    assert PlainCopy(given).run() == {"groups": {"g": {"replay": 0}}}
    sources = [source_of(each, "flights") for each in read_topic(servers, "moved")]
    # What the group has read comes first.
    assert sorted(sources[:4]) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert sorted(sources[4:8]) == [(0, 3), (1, 1), (1, 2), (1, 3)]
    assert sources[8:] == [(0, 4)]
    assert committed(servers, "g", "moved") == {0: 4}
    assert (tmp_path / "plan").read_text() == "g,moved,0,4\n"


def test_a_defect_has_a_name():
    with pytest.raises(SystemExit):
        arguments(["--defect", "unknown"])
