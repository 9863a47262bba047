"""Settings beside Apache Kafka's own ConfigDef: what is taken, what is refused and with which sentence, and which value is read.

A small Java program (tests/java/KafkaSettings.java) gives Kafka's answers, many at once, without a running Kafka; skipped where Maven or a
JDK is missing.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.cli.processes import ToolMissing
from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, ConfigError, ConfigType, Setting
from ottla.config.listeners import broker_listeners
from ottla.config.security_settings import OPEN_LISTENERS
from ottla.metadata.config_changes import new_topic_problem
from ottla.metadata.resource_configs import ResourceConfigs
from tests.support.processes import JavaProgram, compile_java

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent.parent / "java" / "KafkaSettings.java"
NOT_COMPARED = {"allow.everyone.if.no.acl.found", "super.users", OPEN_LISTENERS, "sasl.server.callback.handler.class"}
"""Settings of Kafka's StandardAuthorizer, which the broker's own definitions lack; one of Ottla's own; a class, which Kafka loads."""
TABLES: Mapping[str, Mapping[str, Setting]] = {
    "topic": TOPIC_SETTINGS,
    "broker": {name: setting for name, setting in BROKER_SETTINGS.items() if name not in NOT_COMPARED},
}
# What Kafka takes and our broker could not serve: the words of each sentence.
NARROWER = re.compile(
    "the most partitions that a topic may have here"
    "|is Java and cannot be loaded here"
    r"|configuration ssl\.(enabled\.protocols|keystore\.type|truststore\.type): String must be one of"
    r"|configuration sasl\.oauthbearer\.(clock\.skew\.seconds|jwks\.endpoint\.refresh\.ms): Value must be at least"
    "|a topic has at least one"
    "|> the number of brokers"
    "|as the topic's segment.bytes must be"
    "|the smallest table holds some keys"
    "|or cleaning would not end"
    "|no member of a group could join"
    "|log.cleaner.enable=false disables cleaning"
    "|not NaN"
)
# Other sentences of Kafka's: those of its start (of listeners, too), and those about the setting that another one is read into.
OTHER_WORDS = re.compile(
    "requirement failed|by zero|configuration flush.ms|Unknown compression type id|configuration broker.id|max.connections.per.ip.overrides"
    "|listener|Class .* cannot be found|rebalance.protocols"
)

Case = tuple[str, dict[str, str]]
Ask = Callable[[Sequence[Case]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ask(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """`ask(cases)` gives Apache Kafka's answers."""
    directory = tmp_path_factory.mktemp("settings")
    try:
        class_path = compile_java(SOURCE, reference.class_path(), directory)
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with JavaProgram("KafkaSettings", class_path, error_path=directory / "errors") as program:

        def ask(cases: Sequence[Case]) -> list[dict[str, Any]]:
            since = len(program.events)
            program.send(json.dumps([{"of": of, "settings": given} for of, given in cases]))
            return list(program.wait_for(lambda seen: seen and seen[-1], "answers", since=since, seconds=120)["answers"])

        yield ask


def our_answer(case: Case) -> dict[str, Any]:
    """The same of ours, in the same form."""
    of, given = case
    try:
        if of == "topic":
            configs = ResourceConfigs(1, BrokerConfig().text)
            refused = new_topic_problem(configs, given)
            if refused is not None:
                return {"refused": refused.message}
            return {"values": {name: configs.parsed_topic_value(given, name) for name in given}}
        broker_listeners(BrokerConfig(given).text, "127.0.0.1:9092", 1)
    except ConfigError as error:
        return {"refused": str(error)}
    return {"values": {name: BROKER_SETTINGS[name].parse(text) for name, text in given.items()}}


def in_pythons_form(case: Case, answer: dict[str, Any]) -> dict[str, Any]:
    """Kafka's answer with its lists as tuples and its doubles as floats."""
    if "values" not in answer:
        return answer
    types = {name: TABLES[case[0]][name].type for name in case[1]}
    forms: dict[ConfigType, Callable[[Any], Any]] = {ConfigType.LIST: tuple, ConfigType.DOUBLE: lambda text: float(text)}
    return {"values": {name: forms.get(types[name], lambda same: same)(value) for name, value in answer["values"].items()}}


def differences(cases: Sequence[Case], answers: Sequence[dict[str, Any]]) -> list[str]:
    """Where ours is not Kafka's, but for what our broker cannot serve."""
    found = []
    for case, answer in zip(cases, answers, strict=True):
        ours, theirs = our_answer(case), in_pythons_form(case, answer)
        is_narrower = "refused" in ours and "values" in theirs and NARROWER.search(ours["refused"])
        if (not is_narrower and ("refused" in ours) != ("refused" in theirs)) or ("values" in ours and ours != theirs):
            found.append(f"{case}: {ours} != {theirs}")
    return found


def spellings(setting: Setting) -> list[str]:
    """Values near every edge of the grammar and of this setting's bounds."""
    numbers = {0, 1, 5, 7, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**31), -(2**31) - 1, -(2**63), -(2**63) - 1}
    for bound in (setting.low, setting.high, setting.also):
        if bound is not None and bound == int(bound):
            numbers |= {int(bound) - 1, int(bound), int(bound) + 1}
    whole = [str(number) for number in sorted(numbers | {-number for number in numbers})]
    ways = [
        "+5",
        "++5",
        "+-5",
        "+",
        "-",
        "- 5",
        " 5 ",
        "\t5\r\n",
        "\x005\x1f",
        "5\u00a0",
        "\u20035",
        "1_0",
        "1_048_576",
        "0x10",
        "1e3",
        "1,000",
    ]
    digits = ["\u0661\u0660", "\uff15", "-\u0667", "\U0001d7d3", "\u00b2", "\u0be7\u0be6", "\u2165", "0" * 5000 + "7", "9" * 5000, "007"]
    doubles = ["0.5", ".5", "5.", ".", "1e", "1e-3", "1E+3", "0.5f", "0.5D", "0.5L", "NaN", "nan", "Infinity", "-Infinity", "inf", "NaNf"]
    hexadecimals = [
        "0x1p-1",
        "0x.8p0",
        "0X1.8P0d",
        "0x1",
        "0xp1",
        "-0x1p1",
        "0x1p99999",
        "1e999999",
        "-1e999999",
        "1e-999999",
        "-0.0",
        "1.5",
    ]
    words = ["", " ", "true", "TRUE", "True ", "fal\u017fe", "yes", "1", "on", "null", "none", "\u0131"]
    lists = [
        ",",
        "a,,b",
        "delete,",
        ",delete",
        "delete,delete",
        "delete , compact",
        "compact\t,\x0bdelete",
        "compact,Delete",
        "delete;compact",
    ]
    choices = [
        each for choice in setting.choices for each in (choice, f" {choice}\n", choice.upper(), f"{choice}\u00a0", f"{choice},{choice}")
    ]
    return [*whole, *ways, *digits, *doubles, *hexadecimals, *words, *lists, *choices]


@pytest.mark.parametrize("of", TABLES)
def test_every_setting_with_every_spelling(ask: Ask, of: str) -> None:
    cases = [(of, {setting.name: text}) for setting in TABLES[of].values() for text in spellings(setting)]
    answers = ask(cases)
    found = differences(cases, answers)
    assert not found, f"{len(found)} of {len(cases)}:\n" + "\n".join(found[:50])
    for case, answer in zip(cases, answers, strict=True):
        ((_, text),) = case[1].items()
        if (
            "refused" in answer
            and text.isprintable()
            and len(text) < 100
            and "E" not in text.upper()
            and not OTHER_WORDS.search(answer["refused"])
        ):
            assert NARROWER.search(our_answer(case)["refused"]) or our_answer(case) == answer, case


ALPHABET = "0123456789+-._eExXpPdDfFaN ,\t\u0660\u0669\uff10\u00a0\U0001d7ce"
NUMERALS = st.one_of(
    st.integers().map(str),
    st.integers(-10, 10).map(str),
    st.floats().map(repr),
    st.floats(-2, 2).map(lambda number: number.hex()),
    st.text(ALPHABET, max_size=12),
    st.from_regex(r"\s?[+-]?[0-9_]{1,6}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,3})?[fFdD]?\s?", fullmatch=True),
)
WORDS = st.sampled_from(["true", "false", "delete", "compact", "gzip", "producer", "zstd", "CreateTime", "LogAppendTime"])
VALUES = st.one_of(
    NUMERALS,
    st.lists(st.one_of(WORDS, st.sampled_from(["", " ", "x"])), max_size=4).map(",".join),
    st.tuples(st.sampled_from(["", " ", "\n"]), WORDS.map(str.title) | WORDS, st.sampled_from(["", "\x00", "\u3000"])).map("".join),
    st.text(max_size=10),
)
CASES = st.sampled_from(sorted(TABLES)).flatmap(
    lambda of: st.tuples(st.just(of), st.dictionaries(st.sampled_from(sorted(TABLES[of])), VALUES, min_size=1, max_size=3))
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(CASES, min_size=1, max_size=60))
def test_settings_are_taken_and_refused_as_kafka_does(ask: Ask, cases: list[Case]) -> None:
    found = differences(cases, ask(cases))
    assert not found, "\n".join(found)


def test_names_and_types_are_kafkas(ask: Ask) -> None:
    known = [(of, {name: setting.default}) for of, table in TABLES.items() for name, setting in table.items() if setting.default]
    for case, answer in zip(known, ask(known), strict=True):
        assert "values" in answer, (case, answer)
        assert None not in answer["values"].values(), case
