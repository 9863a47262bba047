"""One setting: which values it takes, how it reads them, and with which sentence it refuses others."""

import pytest

from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS, ConfigError, Setting
from ottla.config.setting import Value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("segment.bytes", " +1048576\n", 1048576),
        ("min.cleanable.dirty.ratio", "5e-1d", 0.5),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("preallocate", " TRUE", True),
        ("compression.type", "\tgzip ", "gzip"),
        ("cleanup.policy", "delete , compact", ("delete", "compact")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("cleanup.policy", "", ()),
        ("compression.gzip.level", "-1", -1),
    ],
)
def test_values_are_read_as_kafka_reads_them(name: str, text: str, value: Value) -> None:
    assert TOPIC_SETTINGS[name].parse(text) == value
    assert TOPIC_SETTINGS[name].problem(text) is None


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("compression.type", "", "Invalid value  for configuration compression.type: String must be one of: uncompressed, zstd, lz4, "),
        ("message.timestamp.type", "", "Invalid value  for configuration message.timestamp.type: String must be one of: CreateTime, "),
        ("segment.bytes", "1_048_576", "Invalid value 1_048_576 for configuration segment.bytes: Not a number of type INT"),
        ("segment.bytes", "-0", "Invalid value 0 for configuration segment.bytes: Value must be at least 1048576"),
        ("retention.ms", str(2**63), "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG"),
        (
            "min.cleanable.dirty.ratio",
            "1e10",
            "Invalid value 1.0E10 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "NaN",
            "Invalid value NaN for configuration min.cleanable.dirty.ratio: Value must be a number, not NaN",
        ),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        ("cleanup.policy", "compact,shred", "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete"),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
    ],
)
def test_values_are_refused_with_kafkas_sentence(name: str, text: str, sentence: str) -> None:
    problem = TOPIC_SETTINGS[name].problem(text)
    assert problem is not None
    assert problem.startswith(sentence)
    with pytest.raises(ConfigError):
        TOPIC_SETTINGS[name].parse(text)


@pytest.mark.parametrize(
    ("name", "text", "plain"),
    [
        ("retention.ms", " +5 ", "5"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", "delete , compact,delete", "delete,compact"),
        ("min.cleanable.dirty.ratio", "1e-3", "0.001"),
        ("compression.type", " gzip", "gzip"),
        ("retention.ms", "soon", "soon"),
    ],
)
def test_values_are_shown_as_kafka_shows_them(name: str, text: str, plain: str) -> None:
    assert TOPIC_SETTINGS[name].plain(text) == plain


def test_null_is_no_value() -> None:
    assert "a value is needed" in str(TOPIC_SETTINGS["cleanup.policy"].problem(None))


def test_a_sentence_is_one_line_and_ends() -> None:
    problem = TOPIC_SETTINGS["retention.ms"].problem("\x1b[2J\n" + "9" * 100_000)
    assert problem is not None
    assert problem.isprintable()
    assert len(problem) < 1000
    assert "... (100005 characters)" in problem


def test_a_narrower_bound_says_why() -> None:
    problem = BROKER_SETTINGS["num.partitions"].problem("20000")
    assert problem == (
        "Invalid value 20000 for configuration num.partitions: Value must be no more than 10000,"
        " the most partitions that a topic may have here"
    )


@pytest.mark.parametrize(
    ("setting", "valid"),
    [
        (TOPIC_SETTINGS["segment.bytes"], "[1048576,...]"),
        (TOPIC_SETTINGS["compression.gzip.level"], "[1,...,9] or -1"),
        (TOPIC_SETTINGS["cleanup.policy"], "[compact, delete]"),
        (TOPIC_SETTINGS["preallocate"], ""),
        (BROKER_SETTINGS["log.cleaner.io.buffer.load.factor"], "[0.0001,...,1]"),
    ],
    ids=lambda each: each.name if isinstance(each, Setting) else "",
)
def test_the_values_that_can_be_are_described_as_in_kafkas_documentation(setting: Setting, valid: str) -> None:
    assert setting.valid == valid
