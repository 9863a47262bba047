"""`ottla transactions` beside Apache Kafka's kafka-transactions: the same command lines, on both brokers, print the same values.

Each tool aborts transactions of its own. Titles may stand in several lines here, and fields below each other; times and ids are masked, and
sentences that only one of the tools has are not compared.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.clients.transaction_script import Script
from tests.support.reference.apache_kafka import KafkaTools, Printed

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.TransactionsCommand"
COMMAND_LINES = """
list --transactional-id-pattern NAME.*
list --transactional-id-pattern NAME.* --duration-filter 3600000
list --transactional-id-pattern (
describe --transactional-id NAME-open
describe --transactional-id NAME-empty
describe --transactional-id NAME-nothing
describe-producers --topic NAME --partition 0
describe-producers --topic NAME --partition 1 --broker-id 1
find-hanging --topic NAME --max-transaction-timeout 1
find-hanging --partition 0 --broker-id 1
find-hanging
abort --topic NAME --partition 0
abort --topic NAME --partition 0 --producer-id 1 --producer-epoch 0
abort --topic NAME --partition 0 --start-offset 77
abort --topic NAME --partition 0 --start-offset 0
describe-producers --topic NAME --partition 0
forceTerminateTransaction --transactionalId NAME-open
list --transactional-id-pattern NAME.*
describe
""".strip().splitlines()
TITLES = re.compile(r"(?:\s*(?:[A-Z][A-Za-z]*(?:\(min\))?|\(min\))\s*)+")
TIMES = ("CurrentTransactionStartTimeMs", "TransactionDurationMs")
MASKS = ((r"\b1[789]\d{11}\b", "<time>"), (r"\s+", " "))


def comparable(printed: Printed, name: str) -> tuple[int, str, list[str]]:
    """The status, the titles' letters, and the rows; of a failure the beginning of its sentence. Of a usage error nothing."""
    if printed.status:
        sentences = [line for line in printed.err.splitlines() if line and not line.startswith("[")]
        is_usage = sentences[0].lower().startswith("usage")
        return printed.status, "", [] if is_usage else [re.split(r"`?: |\.$", sentences[0].replace(name, "NAME"))[0]]
    lines = printed.out.replace(name, "NAME").splitlines()
    titles = [line for line in lines if TITLES.fullmatch(line)]
    rows = [line for line in lines if not TITLES.fullmatch(line)]
    for pattern, mask in MASKS:
        rows = [re.sub(pattern, mask, row).strip() for row in rows]
    return 0, "".join(sorted("".join(titles).replace(" ", "").replace("\t", ""))), rows


def masked(line: str, row: str, producer_ids: list[int]) -> str:
    """A row with the number of its producer id in place of the id, where a row of the command has one."""
    cells, column = row.split(" "), {"list": 2, "describe-producers": 0}.get(line.split()[0])
    if column is not None and len(cells) > column and cells[column].isdigit():
        cells[column] = f"<id {producer_ids.index(int(cells[column]))}>"
    return " ".join(cells)


def described(printed: Printed, name: str) -> Any:
    """Titles with values, from a row below its titles or from fields below each other."""
    lines = printed.out.replace(name, "NAME").splitlines()
    if "\t" in lines[0]:
        fields = dict(zip(*([cell.strip() for cell in line.split("\t")] for line in lines), strict=True))
    else:
        joined = re.sub(r",\n +", ",", printed.out.replace(name, "NAME"))
        fields = {line.split()[0]: " ".join(line.split()[1:]) for line in joined.splitlines()}
    fields["TopicPartitions"] = ",".join(sorted(fields["TopicPartitions"].split(",")))
    fields |= {title: "<time>" for title in TIMES if fields[title] != "None"}
    return sorted((title, value) for title, value in fields.items() if title not in ("", "ProducerId"))


def begin(client: RawClient, name: str) -> list[int]:
    """A topic with an open transaction, and an id that has begun none; the producer ids of both."""
    create_topic(client, name, 2)
    scripts = [Script(client, name, f"{name}-{what}") for what in ("empty", "open")]
    for script in scripts:

        def is_found(name: str = script.name) -> bool:
            answer = client.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name])
            return bool(answer.coordinators[0].error_code == 0)

        wait_until(is_found, "a coordinator of transactions")
        script.init()
    for act in (scripts[1].add, scripts[1].produce):  # Apache Kafka's answers about topics lag a little behind its controller

        def is_done(act: Callable[[], None] = act) -> bool:
            act()
            return bool(scripts[1].said[-1][1] == 0)

        wait_until(is_done, lambda: f"a record in a transaction: {scripts[1].said[-1]}")
    return [script.id for script in scripts]


def test_the_same_values(
    both: Mapping[str, str], kafka_tools: KafkaTools, unique_name: Callable[[str], str], subtests: pytest.Subtests
) -> None:
    names = {"theirs": unique_name("t"), "ours": unique_name("o")}
    for kind, address in both.items():
        with RawClient(address) as client:
            ids = {tool: begin(client, name) for tool, name in names.items()}
        for line in COMMAND_LINES:
            said = {}
            for tool, name in names.items():
                arguments = ["--bootstrap-server", address, *line.replace("NAME", name).split()]
                if tool == "ours":
                    result = CliRunner().invoke(main, ["transactions", *arguments])
                    printed = Printed(result.exit_code, result.stdout, result.stderr)
                else:
                    printed = kafka_tools.run(TOOL, *arguments)
                if line.startswith("describe --") and printed.status == 0:
                    said[tool] = described(printed, name)
                    continue
                status, titles, rows = comparable(printed, name)
                said[tool] = [status, titles, sorted(masked(line, row, ids[tool]) for row in rows)]
            with subtests.test(line, broker=kind):
                assert said["ours"] == said["theirs"]
