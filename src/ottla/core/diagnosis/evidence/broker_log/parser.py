"""Understands what group coordinators write: removes the line's frame, and gives the message to the rule of its kind."""

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Final

from ottla.core.diagnosis.evidence.broker_log.classic_lines import CLASSIC_RULES
from ottla.core.diagnosis.evidence.broker_log.consumer_lines import CONSUMER_RULES
from ottla.core.diagnosis.evidence.broker_log.line_patterns import Rule
from ottla.core.diagnosis.evidence.broker_log.memory import Memory
from ottla.core.diagnosis.evidence.log_reading import Facts, LogReader, without_logger
from ottla.core.diagnosis.evidence.model import Source

MARKER: Final = re.compile(r"\[Group(?:Coordinator|MetadataManager| Metadata Manager on Broker) ")
PREFIX: Final = re.compile(
    r"\[GroupCoordinator id=\d+ topic=\S{1,250} partition=(?P<partition>\d+)\] "
    r"|\[GroupCoordinator (?P<broker>\d+)\]:? "
    r"|\[GroupMetadataManager brokerId=\d+\]:? "
    r"|\[Group Metadata Manager on Broker \d+\]:? "
)
OF_NO_PARTITION: Final = re.compile(r"\[GroupCoordinator id=\d+\] ")
"""What Apache Kafka 4.x writes of partitions that it loads and stores: of no group."""
ALL_RULES: Final = (*CLASSIC_RULES, *CONSUMER_RULES)


def broker_log_reader(*, clock: str, zone: tzinfo) -> LogReader:
    """A reader of one broker's log; `clock` names the log, `zone` is for times that name none."""
    return LogReader(parser=BrokerLogParser(), clock=clock, zone=zone)


class BrokerLogParser:
    """The messages of group coordinators, and what must be remembered of earlier ones."""

    source = Source.BROKER_LOG
    needles: Sequence[bytes] = (b"[Group",)

    def __init__(self) -> None:
        self._memory = Memory()

    def find(self, text: str) -> int:
        """Where a coordinator's prefix begins."""
        found = MARKER.search(text)
        return -1 if found is None else found.start()

    def parse(self, message: str) -> Sequence[Facts] | None:
        """What the message says."""
        prefix = PREFIX.match(message)
        if prefix is None:
            return () if OF_NO_PARTITION.match(message) else None
        text = without_logger(message[prefix.end() :])
        self._memory.partition = prefix["partition"] or prefix["broker"] or ""
        for rule in RULES.get(first_word(text), ()):
            found = rule.pattern.match(text)
            if found is not None:
                return rule.facts(found, self._memory)
        return None


def first_word(text: str) -> str:
    """The word that a message is looked up by."""
    word = text.split(" ", maxsplit=1)[0]
    return "[GroupId=" if word.startswith("[GroupId=") else "Member" if word.startswith("Member[") else word


RULES: Final[Mapping[str, Sequence[Rule]]] = {
    word: [rule for rule in ALL_RULES if rule.word == word] for word in {rule.word for rule in ALL_RULES}
}
