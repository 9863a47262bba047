"""The user's name in a client certificate: its subject as Java writes it (RFC 2253), and the rules that map it (KIP-371).

Sources: X500Principal.getName() and AVA.toRFC2253String of the JDK, Kafka's SslPrincipalMapper. The certificate has been verified before;
malformed bytes raise ValueError all the same.
"""

import re
from typing import Final, NamedTuple

_SEQUENCE, _SET, _OBJECT_ID, _CONTEXT_0 = 0x30, 0x31, 0x06, 0xA0
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "latin-1", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""The string types of ASN.1 whose values are shown as text."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_name(certificate: bytes) -> str:
    """The subject of a DER certificate, the last part first: `CN=alice,OU=Dev,O=Acme\\, Inc`. Raises ValueError."""
    try:
        _, body, _ = _element(certificate, 0)
        _, tbs, _ = _element(certificate, body)
        at = tbs
        tag, start, end = _element(certificate, at)
        if tag == _CONTEXT_0:  # the version
            at = end
        for _ in range(4):  # serial number, signature, issuer, validity
            _, _, at = _element(certificate, at)
        tag, start, end = _element(certificate, at)
        if tag != _SEQUENCE:
            raise ValueError("no certificate: its subject is not there")
        return ",".join(reversed([_relative_name(certificate, *part) for part in _elements(certificate, start, end)]))
    except IndexError as error:
        raise ValueError("no certificate: it ends early") from error


def _relative_name(data: bytes, tag: int, start: int, end: int) -> str:
    if tag != _SET:
        raise ValueError("no certificate: a part of its subject is no set")
    return "+".join(_attribute(data, first, last) for _, first, last in _elements(data, start, end))


def _attribute(data: bytes, start: int, end: int) -> str:
    tag, first, value_at = _element(data, start)
    if tag != _OBJECT_ID:
        raise ValueError("no certificate: an attribute without a type")
    object_id = _object_id(data[first:value_at])
    tag, first, last = _element(data, value_at)
    keyword, encoding = _KEYWORDS.get(object_id), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or object_id}=#{data[value_at:end].hex()}"
    return f"{keyword}={_escaped(data[first:last].decode(encoding, errors='replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED else "\\00" if letter == "\0" else letter for letter in text)
    blanks_before, blanks_behind = len(escaped) - len(escaped.lstrip(" ")), len(escaped) - len(escaped.rstrip(" "))
    if blanks_before == len(escaped):
        return "\\ " * len(escaped)
    return "\\ " * blanks_before + escaped.strip(" ") + "\\ " * blanks_behind


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the element at `at`, and where its content starts and ends."""
    tag, length, at = data[at], data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, at = int.from_bytes(data[at : at + count]), at + count
    if at + length > len(data):
        raise ValueError("no certificate: an element is longer than what is there")
    return tag, at, at + length


def _elements(data: bytes, start: int, end: int) -> list[tuple[int, int, int]]:
    found = []
    while start < end:
        element = _element(data, start)
        found.append(element)
        start = element[2]
    return found


def _object_id(data: bytes) -> str:
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


_RULE: Final = re.compile(r"(?:DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))(?=\s*(?:,|\Z))", re.DOTALL)
_GROUP: Final = re.compile(r"\$(\d+)")


class _Rule(NamedTuple):
    """`pattern` None: the whole subject."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`. Raises ValueError for malformed ones.

    A rule's pattern is compiled by Python's `re`: it comes from the broker's own settings, and is matched to verified certificates.
    """

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule] = []
        at = 0
        while at < len(rules):
            if rules[at].isspace() or rules[at] == ",":
                at += 1
                continue
            match = _RULE.match(rules, at)
            if match is None:
                raise ValueError(f"Invalid rule: `{rules[at:].strip()}`")
            at = match.end()
            if match[1] is None:
                self._rules.append(_Rule(None, "", ""))
                continue
            try:
                pattern = re.compile(match[1].replace("\\/", "/"))
            except re.error as error:
                raise ValueError(f"Invalid rule: `{match[0]}`: {error}") from error
            self._rules.append(_Rule(pattern, match[2].replace("\\/", "/"), match[3]))

    def name(self, subject: str) -> str | None:
        """The user's name by the first rule that matches the whole subject; None where none does."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return subject
            match = pattern.fullmatch(subject)
            if match is None:
                continue
            groups = match.groups()

            def group(found: re.Match[str], groups: tuple[str | None, ...] = groups) -> str:
                number = int(found[1])
                return groups[number - 1] or "" if 1 <= number <= len(groups) else found[0]

            name = _GROUP.sub(group, replacement)
            return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None
