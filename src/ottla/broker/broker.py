"""One embedded broker, started from Python; the thread around it is in `embedded`, what it does in `running_brokers`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.broker.embedded import Embedded
from ottla.core.config import GivenValue
from ottla.core.model import GroupEvent


class Broker(Embedded):
    """A Kafka broker inside this process, with a thread and a loop of its own.

    `data_dir` None keeps everything in memory. `config` takes Kafka's own names, {"num.partitions": 3}: text, numbers, True or False.
    `listen` is HOST:PORT, port 0 for any free one. `metrics` is HOST:PORT for /metrics (Prometheus) and /health. `on_group_event` is called
    in the broker's thread with every GroupEvent. Raises ConfigError for invalid settings.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, GivenValue] | None = None,
        listen: str = "127.0.0.1:0",
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
    ) -> None:
        super().__init__(data_dir, config, listen, on_group_event, metrics, brokers=1)
