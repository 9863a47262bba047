"""The first contact of a query that writes with its brokers: a wrong address ends it in seconds, with the address.

librdkafka tries until max.block.ms, whatever the reason is. The driver checks a batch when it is planned; the tasks check a stream in its
first micro-batch. Nothing is checked later: then brokers that cannot be reached probably restart, and the producer waits for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from ottla.client.security.properties import NAMES as SECURITY_NAMES
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.spark.options.kafka_settings import BOOTSTRAP_TIMEOUT_MS, PREFIX

if TYPE_CHECKING:
    from ottla.client.admin.client import AdminClient

_CLIENT_NAMES: Final = SECURITY_NAMES | {"bootstrap.servers", "client.id"}
_BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's name for the number of a task's micro-batch (MicroBatchExecution)."""


@dataclass(frozen=True, slots=True)
class FirstContact:
    """The brokers of a query and its topic (None: it is in the column), and how long the first contact may take."""

    client: ClientSettings
    topic: str | None
    timeout_ms: int

    def check(self, *, connect: "Callable[..., AdminClient] | None" = None) -> None:
        """Raise NoBrokerReachedError where no broker, or not every leader of the topic, can be reached; also other ClientErrors."""
        with (connect or _admin_client())(self.client, bootstrap_timeout_ms=self.timeout_ms) as admin:
            admin.reach_leaders([] if self.topic is None else [self.topic])


def _admin_client() -> "type[AdminClient]":
    # Here, for the tasks that write load this module too, and most of them check nothing.
    from ottla.client.admin.client import AdminClient

    return AdminClient


def parse_first_contact(options: Mapping[str, str], topic: str | None, max_block_ms: int) -> FirstContact:
    """The brokers of checked options. `max_block_ms` is the limit where the options set it."""
    properties = {name.lower().removeprefix(PREFIX): value for name, value in options.items()}
    client = parse_client_settings({name: value for name, value in properties.items() if name in _CLIENT_NAMES})
    return FirstContact(client, topic, max_block_ms if "max.block.ms" in properties else BOOTSTRAP_TIMEOUT_MS)


def is_first_micro_batch(context: TaskContext | None) -> bool:
    """Whether this task belongs to the first micro-batch of a stream."""
    return context is not None and context.getLocalProperty(_BATCH_ID) == "0"
