"""Understands what consumers of any client write, also mixed in one file: finds whose message a line holds, and gives it to that client."""

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from ottla.core.diagnosis.evidence.client_log import java, librdkafka
from ottla.core.diagnosis.evidence.client_log.aiokafka import AIOKAFKA_RULES
from ottla.core.diagnosis.evidence.client_log.kafka_python import KAFKA_PYTHON_RULES
from ottla.core.diagnosis.evidence.client_log.message_rule import ClientPast, first_facts
from ottla.core.diagnosis.evidence.client_log.subscriptions import PYTHON_SUBSCRIPTIONS
from ottla.core.diagnosis.evidence.log_reading import Facts, LogReader, without_logger
from ottla.core.diagnosis.evidence.model import Source

START_CHARACTERS_MAX: Final = 4000
"""A message begins within so many characters, so that a long line of another program is refused soon."""
PYTHON_RULES: Final = (*KAFKA_PYTHON_RULES, *AIOKAFKA_RULES, *PYTHON_SUBSCRIPTIONS)
PYTHON_MESSAGE: Final = re.compile(
    r"(?:^|(?<=[\s:|\]\"]))(?:\(Re-\)joining group |Successfully joined group |Joined group '|Triggering follow-up rebalance "
    r"|Consumer poll timeout has expired\. |Heartbeat(?: session expired|: local member| failed| thread caught)|Leaving consumer group "
    r"|(?:SyncGroup|OffsetCommit) for group |LeaveGroup request succeeded|Metadata for topic has changed |Updating subscribed topics to"
    r"|Discovered coordinator |Elected group leader -- |Unsubscribed all topics or patterns|Subscrib(?:ing to|ed to topic) pattern: )"
)


def client_log_reader(*, clock: str, zone: tzinfo) -> LogReader:
    """A reader of one client's log; `clock` names the log, `zone` is for times that name none."""
    return LogReader(parser=ClientLogParser(), clock=clock, zone=zone)


class ClientLogParser:
    """The messages of consumers, and what must be remembered of earlier ones."""

    source = Source.CLIENT_LOG
    needles: Sequence[bytes] = (b"roup", b"poll", b"eartbeat", b"etadata for topic", b"subscri", b"Subscri")

    def __init__(self) -> None:
        self._past = ClientPast()

    def find(self, text: str) -> int:
        """Where the first message of a client begins."""
        found = [pattern.search(text, 0, START_CHARACTERS_MAX) for pattern in (java.PREFIX, librdkafka.PREFIX, PYTHON_MESSAGE)]
        return min((each.start() for each in found if each is not None), default=-1)

    def parse(self, message: str) -> Sequence[Facts] | None:
        """What the message says."""
        text = without_logger(message)
        facts = java.java_facts(text, self._past)
        if facts is None:
            facts = librdkafka.librdkafka_facts(text, self._past)
        if facts is None:
            facts = first_facts(text, PYTHON_RULES, self._past)
        return [self._past.complete(each) for each in facts]
