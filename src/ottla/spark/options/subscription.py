"""Which topics a query reads: `subscribe`, `subscribePattern` (Java's regular expressions) and `assign`.

A pattern matches anywhere in a name, as Java's `find` does, and never an internal topic; those can be read by name. Java's regular
expressions are translated into Python's. Constructs without an equivalent are refused by name; as topic names are ASCII without white
space, character classes can be written out. Source: the documentation of java.util.regex.Pattern.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.protocol.model import TopicPartition
from ottla.spark.options.values import OptionError, partitions

_LETTERS: Final[Mapping[str, str]] = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~", "ASCII": r"\x00-\x7f", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Space": r"\s",
    "L": "a-zA-Z", "IsL": "a-zA-Z", "IsAlphabetic": "a-zA-Z", "javaLetter": "a-zA-Z",
    "Lu": "A-Z", "IsLu": "A-Z", "IsUppercase": "A-Z", "javaUpperCase": "A-Z",
    "Ll": "a-z", "IsLl": "a-z", "IsLowercase": "a-z", "javaLowerCase": "a-z",
    "N": "0-9", "Nd": "0-9", "IsN": "0-9", "IsNd": "0-9", "IsDigit": "0-9", "javaDigit": "0-9",
}  # fmt: skip
_SAME_ESCAPES: Final = frozenset("dDsSwWbBAtnrfa123456789")


class _Reader:
    """A pattern and the position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, count: int = 1) -> str:
        piece = self.text[self.at : self.at + count]
        self.at += count
        return piece

    def take_if(self, start: str) -> bool:
        found = self.text.startswith(start, self.at)
        self.at += len(start) if found else 0
        return found

    def until(self, end: str, what: str) -> str:
        """The text before `end`; skips `end`."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise ValueError(f"{what} without its {end}")
        piece = self.text[self.at : stop]
        self.at = stop + len(end)
        return piece

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.text)


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a Java pattern. Raises ValueError that names an unsupported construct."""
    reader, flags, parts = _Reader(text), re.ASCII, []
    while (match := re.compile(r"\(\?([ims]+)\)").match(reader.text, reader.at)) is not None:
        for letter in match[1]:
            flags |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}[letter]
        reader.at = match.end()
    while not reader.is_over:
        letter = reader.take()
        parts.append(_AFTER.get(letter, lambda _, letter=letter: letter)(reader))
    try:
        return re.compile("".join(parts), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _escape(reader: _Reader) -> str:
    letter = reader.take()
    if letter == "":
        raise ValueError("a \\ with nothing behind it")
    if letter == "Q":
        end = reader.text.find(r"\E", reader.at)
        quoted = reader.take(len(reader.text) - reader.at) if end < 0 else reader.until(r"\E", r"\Q")
        return re.escape(quoted)
    if letter in "pP":
        return f"[{'^' if letter == 'P' else ''}{_class_letters(reader)}]"
    if letter == "k":
        if not reader.take_if("<"):
            raise ValueError(r"\k without a name")
        return f"(?P={reader.until('>', chr(92) + 'k<')})"
    if letter in "zZ":
        return r"\Z"
    return _plain_escape(letter, reader)


def _plain_escape(letter: str, reader: _Reader) -> str:
    if letter == "x" and reader.take_if("{"):
        return re.escape(chr(int(reader.until("}", r"\x{"), 16)))
    if letter in "xu":
        return f"\\{letter}{reader.take(2 if letter == 'x' else 4)}"
    if letter == "e":
        return r"\x1b"
    if letter.isalnum() and letter not in _SAME_ESCAPES:
        raise ValueError(f"\\{letter} is not supported")
    return f"\\{letter}"


def _class_letters(reader: _Reader) -> str:
    name = reader.until("}", r"\p{") if reader.take_if("{") else reader.take()
    if name not in _LETTERS:
        raise ValueError(f"\\p{{{name}}} is not supported")
    return _LETTERS[name]


def _group(reader: _Reader) -> str:
    if not reader.take_if("?"):
        return "("
    for start in (":", "=", "!", ">", "<=", "<!"):
        if reader.take_if(start):
            return f"(?{start}"
    if reader.take_if("<"):
        return f"(?P<{reader.until('>', '(?<')}>"
    flags = re.compile(r"([ims]*(?:-[ims]+)?):").match(reader.text, reader.at)
    if flags is not None:
        reader.at = flags.end()
        return f"(?{flags[0]}"
    raise ValueError(f"(?{reader.take(2)} is not supported here: write (?i) at the beginning, or (?i:...) around what it is for")


def _set(reader: _Reader) -> str:
    """A character class, [...]; Java's unions and intersections of classes have no equivalent in Python."""
    parts = ["[^" if reader.take_if("^") else "["]
    while True:
        letter = reader.take()
        if letter == "":
            raise ValueError("a [ without its ]")
        if letter == "]" and len(parts) > 1:
            return "".join([*parts, "]"])
        if letter == "[" or (letter == "&" and reader.take_if("&")):
            raise ValueError(f"{'[ inside of [' if letter == '[' else '&& inside of ['} is not supported")
        parts.append(_set_escape(reader) if letter == "\\" else f"\\{letter}" if letter in "]&~|" else letter)


def _set_escape(reader: _Reader) -> str:
    letter = reader.take()
    if letter == "p":
        return _class_letters(reader)
    if letter in "QPkzZbBAe" or letter == "":
        raise ValueError(f"\\{letter} inside of [ is not supported")
    return _plain_escape(letter, reader)


def _quantifier(reader: _Reader) -> str:
    times = re.compile(r"[0-9]+(?:,[0-9]*)?\}").match(reader.text, reader.at)
    if times is None:
        raise ValueError("a { that is no {n}, {n,} or {n,m}: write \\{ for the sign itself")
    reader.at = times.end()
    return "{" + times[0]


_AFTER: Final[Mapping[str, Callable[[_Reader], str]]] = {"\\": _escape, "(": _group, "[": _set, "{": _quantifier}


STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions, without those that do not exist."""

    partitions: tuple[TopicPartition, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(partition.topic for partition in self.partitions))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Every partition of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Every partition of every topic whose name has a match of the pattern, one of Java's."""

    pattern: str

    def matching(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The topics that match, sorted."""
        pattern = compile_pattern(self.pattern)
        return tuple(topic for topic in sorted(topics) if pattern.search(topic))


Subscription = Assign | Subscribe | SubscribePattern


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """The subscription from options by their lower-case names. Raises OptionError."""
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        how_many = "One" if not given else "Only one"
        verb = "must" if not given else "can"
        raise OptionError(f"{how_many} of the following options {verb} be specified for Kafka source: {', '.join(STRATEGIES)}.")
    (name,) = given
    text = options[name.lower()]
    if name == "assign":
        if not text.strip().startswith("{"):
            raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return Assign(partitions("assign", text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic for topic in (part.strip() for part in text.split(",")) if topic))
        if not topics:
            raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return Subscribe(topics)
    return _parse_pattern(text)


def _parse_pattern(text: str) -> SubscribePattern:
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise OptionError(f'The option "subscribePattern" cannot be {pattern!r}: {error}.') from error
    return SubscribePattern(pattern)
