"""Programs written for aiokafka and for confluent-kafka run with our consumers after one changed line, and print the same."""

import asyncio
import inspect
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
PROGRAMS = {
    "aiokafka_application": ("from aiokafka import AIOKafkaConsumer,", "from ottla import AsyncConsumer as AIOKafkaConsumer,"),
    "confluent_examples": ("from confluent_kafka import OFFSET_END,", "from ottla import OFFSET_END,"),
    "confluent_application": ("from confluent_kafka import OFFSET_BEGINNING,", "from ottla import OFFSET_BEGINNING,"),
}


def output(text: str, *arguments: str) -> list[str]:
    """What the program prints."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program", "exec"), names)
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = names["main"](*arguments)
        if inspect.iscoroutine(result):
            asyncio.run(asyncio.wait_for(result, 60))
    return printed.getvalue().splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_unchanged(
    kafka_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str], program: str
) -> None:
    text = (SCRIPTS / f"{program}.py").read_text()
    theirs, ours = PROGRAMS[program]
    assert text.count(theirs) == 1
    library = library_on(kafka_broker)
    printed = []
    for name, version in (("theirs", text), ("ours", text.replace(theirs, ours))):
        topic = unique_name(name)
        library.create_topic(topic, 4)
        library.produce(topic, [(number % 4, b"%d" % number) for number in range(40)])
        printed.append(output(version, kafka_broker.bootstrap_servers, topic, unique_name("group")))
    assert printed[0] == printed[1]
    assert len(printed[0]) > 15
