"""The recipe for Django: the address is a setting of the test."""

import pytest

pytest.importorskip("django", reason="django is not installed")

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, SimpleTestCase, override_settings

from ottla.testing import OttlaCase

if not settings.configured:  # a project's own settings module has it
    settings.configure(KAFKA_BOOTSTRAP_SERVERS="kafka.example.com:9092")

from confluent_kafka import Producer


def order(request: HttpRequest) -> HttpResponse:
    """The application's view: an order becomes a record."""
    producer = Producer({"bootstrap.servers": settings.KAFKA_BOOTSTRAP_SERVERS})
    producer.produce("orders", request.body)
    producer.flush()
    return HttpResponse(status=202)


class OrderTest(OttlaCase, SimpleTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(override_settings(KAFKA_BOOTSTRAP_SERVERS=self.ottla_broker.bootstrap_servers))

    def test_an_order_becomes_a_record(self) -> None:
        response = order(RequestFactory().post("/orders", b"one", content_type="text/plain"))
        assert response.status_code == 202
        assert self.ottla_broker.values("orders") == [b"one"]
