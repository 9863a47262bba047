"""A broker for each test of a unittest class."""

import unittest

from ottla.testing import OttlaCase


class Case(OttlaCase):
    ottla_config = {"num.partitions": 2}

    def test_one(self) -> None:
        self.ottla_broker.produce("orders", [b"a", b"b"])
        assert {record.partition for record in self.ottla_broker.consume("orders", 2)} == {0, 1}

    def test_two(self) -> None:
        self.ottla_broker.create_topic("orders")
        assert self.ottla_broker.values("orders") == []


def test_each_test_has_a_broker_that_ends_with_it() -> None:
    cases = list(unittest.defaultTestLoader.loadTestsFromTestCase(Case))
    result = unittest.TestResult()
    for case in cases:
        case.run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert {type(case.ottla_broker) for case in cases} == {type(cases[0].ottla_broker)}
    assert cases[0].ottla_broker is not cases[1].ottla_broker
    assert all(case.ottla_broker._thread is None for case in cases)
