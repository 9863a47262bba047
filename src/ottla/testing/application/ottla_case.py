"""`OttlaCase`: a broker for each test of a unittest class, Django's included."""

from collections.abc import Mapping
from typing import ClassVar
from unittest import TestCase

from ottla.config import GivenValue
from ottla.testing.application.brokers import Broker


class OttlaCase(TestCase):
    """`self.ottla_broker` is a fresh broker in memory, with the verbs of tests; `ottla_config` are its settings.

    A broker of a whole class: `cls.ottla_broker = cls.enterClassContext(Broker())` in setUpClass of a plain TestCase. With Django, name it
    before its own: `class OrderTest(OttlaCase, django.test.TestCase)`.
    """

    ottla_config: ClassVar[Mapping[str, GivenValue]] = {}
    ottla_broker: Broker

    def setUp(self) -> None:
        """Start the broker, then what other classes set up."""
        self.ottla_broker = self.enterContext(Broker(config=self.ottla_config))
        super().setUp()
