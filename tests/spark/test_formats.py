"""The recipes of docs/spark.md: values in Confluent's form of Avro, and a stream into a Delta table."""

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.broker import Broker
from ottla.cli.processes import ToolMissing, find_java_home
from tests.support.reference.maven import fetch_jars

CHECKOUT = Path(__file__).parents[2]
RECIPES = {
    name: re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    for name, text in re.findall(r"\n### ([^\n]+)\n(.*?)(?=\n##)", (CHECKOUT / "docs" / "spark.md").read_text(), re.DOTALL)
    if "```python" in text
}


def produce(servers: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_avro_behind_the_id_of_a_schema(spark: Any, jvm_format: str, unique_name: Callable[[str], str]) -> None:
    """`jvm_format`: the jars of the session have spark-avro where they can be had."""
    with Broker() as broker:
        # Avro's binary form: a text's length and a number, both zigzag.
        produce(
            broker.bootstrap_servers,
            "flights",
            [b"\x00" + struct.pack(">i", 7) + b"\x04LH\x1e", b"\x00" + struct.pack(">i", 8) + b"\x04BA\x00"],
        )
        flights = (
            spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers).option("subscribe", "flights").load()
        )
        names = {"flights": flights}
        exec(RECIPES["Avro with a schema's id"], names)
        assert [tuple(row) for row in names["decoded"].collect()] == [("LH", 15)]


@pytest.mark.slow
def test_a_stream_into_a_delta_table(tmp_path: Path) -> None:
    """In a session of its own, since Delta changes its SQL and its catalog."""
    try:
        jars = fetch_jars(["io.delta:delta-spark_4.2_2.13:4.4.0"], CHECKOUT / ".cache" / "delta-4.4.0", what="Delta 4.4.0")
        environment = {**os.environ, "JAVA_HOME": str(find_java_home())}
    except ToolMissing as missing:
        pytest.skip(f"Delta {missing}")
    own = ",".join(str(jar) for jar in jars if jar.name.startswith(("delta-", "unitycatalog-")))
    recipe = RECIPES["Delta"].replace('"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"', f'"spark.jars": "{own}"')
    assert own in recipe
    checks = 'print(spark.read.format("delta").load("tables/flights").count())'
    with Broker() as broker:
        for records in (30, 10):
            produce(broker.bootstrap_servers, "flights", [b"v"] * records)
            script = f"servers = {broker.bootstrap_servers!r}\n{recipe}\n{checks}"
            done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "40\n", "the second run continues"
