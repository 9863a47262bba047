"""One consumer process of the demo: an ordinary confluent-kafka consumer that polls, works through what it got, and commits.

SIGTERM closes it in order; SIGUSR1 makes the work on its next flights take far too long. It writes what happens to its log (stderr) and, at
its end, what it did to a file of its own. It knows nothing of incidents: those are done to it.
"""

import argparse
import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

POLL_S = 0.2
BATCH_FLIGHTS_MAX = 500
_STEP_S = 0.1

log = logging.getLogger("consumer")


class Worker:
    """The loop of one consumer. `consumer` is a confluent_kafka.Consumer."""

    def __init__(self, consumer: Any, *, slow_batch_ms: int) -> None:
        self.by_airline: Counter[str] = Counter()
        self.commits_refused = 0
        self._consumer = consumer
        self._slow_batch_ms = slow_batch_ms
        self._is_slow = False
        self._is_stopping = False

    def stop(self) -> None:
        """Leave after the present flights."""
        self._is_stopping = True

    def be_slow_once(self) -> None:
        """Take too long over the next flights."""
        self._is_slow = True

    def run(self, topic: str) -> None:
        """Works until `stop`, then leaves the group."""
        self._consumer.subscribe([topic], on_assign=_log_assigned, on_revoke=_log_revoked, on_lost=_log_lost)
        while not self._is_stopping:
            messages = self._consumer.consume(BATCH_FLIGHTS_MAX, POLL_S)
            flights = [message for message in messages if message.error() is None]
            for message in messages:
                if message.error() is not None:
                    log.warning("%s", message.error().str())
            if flights:
                self._work(flights)
                self._commit()
        self._consumer.close()
        log.info("closed after %d flights", self.by_airline.total())

    def summary(self) -> dict[str, Any]:
        """What this consumer did: flights it worked through, also those that it or another had already done once."""
        return {"flights": self.by_airline.total(), "commits_refused": self.commits_refused, "by_airline": dict(self.by_airline)}

    def _work(self, messages: Sequence[Any]) -> None:
        for message in messages:
            self.by_airline[json.loads(message.value())["carrier"]] += 1
        if self._is_slow:
            self._is_slow = False
            log.info("these %d flights take %d ms, longer than max.poll.interval.ms allows", len(messages), self._slow_batch_ms)
            ends_s = time.monotonic() + self._slow_batch_ms / 1000
            while time.monotonic() < ends_s and not self._is_stopping:
                time.sleep(_STEP_S)

    def _commit(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:
            # The group rebalances without this consumer: the next owner of these partitions reads the flights again.
            if refused.args[0].code() != KafkaError._NO_OFFSET:
                self.commits_refused += 1
                log.warning("commit refused: %s", refused.args[0].str())


def _names(partitions: Sequence[Any]) -> str:
    return ", ".join(str(partition.partition) for partition in sorted(partitions, key=lambda partition: partition.partition)) or "none"


def _log_assigned(_consumer: Any, partitions: Sequence[Any]) -> None:
    log.info("assigned partitions: %s", _names(partitions))


def _log_revoked(_consumer: Any, partitions: Sequence[Any]) -> None:
    log.info("gives back partitions: %s", _names(partitions))


def _log_lost(_consumer: Any, partitions: Sequence[Any]) -> None:
    log.warning("has lost partitions, others have them now: %s", _names(partitions))


def main(arguments: Sequence[str] | None = None) -> None:
    """The process: `--config` holds the settings of the client as JSON, `--summary` names the file to write at the end."""
    from confluent_kafka import Consumer

    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=json.loads, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--slow-batch-ms", type=int, required=True)
    parser.add_argument("--summary", type=Path, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    worker = Worker(Consumer(given.config, logger=log), slow_batch_ms=given.slow_batch_ms)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    signal.signal(signal.SIGUSR1, lambda *_: worker.be_slow_once())
    worker.run(given.topic)
    given.summary.write_text(json.dumps(worker.summary(), indent=1) + "\n")


if __name__ == "__main__":
    main()
