"""librdkafka's mock cluster of one broker in this process: prints its address and stays until it is ended."""

import signal

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1})
broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
signal.pause()
