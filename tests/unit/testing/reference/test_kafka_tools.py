"""One process for many command lines: here a stand-in that prints what it was given."""

import sys

from ottla.testing.reference.kafka_tools import KafkaTools, Printed

ECHO = """
import base64, sys
for number, line in enumerate(sys.stdin):
    for part in (str(number), line, "no error"):
        print(base64.b64encode(part.encode()).decode(), flush=True)
"""


def test_each_command_line_has_its_own_answer() -> None:
    tools = KafkaTools([sys.executable, "-c", ECHO])
    try:
        assert tools.run("a.Tool", "--topic", "") == Printed(0, "a.Tool\t--topic\t\n", "no error")
        assert tools.run("another.Tool") == Printed(1, "another.Tool\n", "no error")
    finally:
        tools.close()
