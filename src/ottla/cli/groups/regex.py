"""`ottla groups --validate-regex`: whether brokers would take a regular expression for a subscription (KIP-848), by the rules of RE2.

It asks no broker. An expression is read once from left to right, and cannot be matched; the words for what is wrong are RE2's.
"""

import re
from typing import Final

from ottla.cli.groups.options import Transcript

INVALID_CHAR_RANGE: Final = "invalid character class range"
INVALID_ESCAPE: Final = "invalid escape sequence"
INVALID_NAMED_CAPTURE: Final = "invalid named capture"
INVALID_PERL_OP: Final = "invalid or unsupported Perl syntax"
INVALID_REPEAT_OP: Final = "invalid nested repetition operator"
INVALID_REPEAT_SIZE: Final = "invalid repeat count"
MISSING_BRACKET: Final = "missing closing ]"
MISSING_PAREN: Final = "missing closing )"
MISSING_REPEAT_ARGUMENT: Final = "missing argument to repetition operator"
TRAILING_BACKSLASH: Final = "trailing backslash at end of expression"
DUPLICATE_NAMED_CAPTURE: Final = "duplicate capture group name"
UNEXPECTED_PAREN: Final = "regexp/syntax: internal error"
"""What the Java edition says of a ")" that closes nothing."""

REPEAT_MAX: Final = 1000
RUNE_MAX: Final = 0x10FFFF
PERL_CLASSES: Final = frozenset("dDsSwW")
_SCRIPTS: Final = (
    "Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Cham "
    "Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic "
    "Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi "
    "Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin Lepcha Limbu Linear_B Lisu "
    "Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian "
    "Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese "
    "Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai "
    "Yi"
)
SCRIPTS: Final = frozenset(_SCRIPTS.split())
_POSIX_CLASS: Final = re.compile("al(num|pha)|ascii|blank|cntrl|x?digit|graph|lower|print|punct|space|upper|word")
_CATEGORY: Final = re.compile("C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
_REPEAT: Final = re.compile(r"\{(0|[1-9]\d*)(?:(,)(0|[1-9]\d*)?)?\}", re.ASCII)
_DIGITS_MAX: Final = 9
_NAME: Final = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(-?)([imsU]*)([:)])")
_UNICODE: Final = re.compile(r"\\[pP](?:\{(\^?)([^}]*)\}|(.))", re.DOTALL)


class Re2Error(Exception):
    """The expression is none; the text says why in RE2's words."""


def check_re2(expression: str) -> None:
    """Raises Re2Error unless RE2 would take the expression."""
    _Checker(expression).check()


class _Checker:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def check(self) -> None:
        can_repeat = after_repeat = False
        while self.at < len(self.text):
            char = self.text[self.at]
            repeated = None
            if char in "*+?":
                self.at += 1
                repeated = True
            elif char == "{":
                repeated = self._counted()
            if repeated:
                self._repeat(can_repeat, after_repeat)
                after_repeat = True
                continue
            # A "{" that opens no count is a text, but nothing may repeat it.
            after_repeat = char == "{"
            can_repeat = self._item(char, can_repeat)
        if self.depth:
            raise Re2Error(MISSING_PAREN)

    def _repeat(self, can_repeat: bool, after_repeat: bool) -> None:
        if self.text.startswith("?", self.at):
            self.at += 1
        if after_repeat:
            raise Re2Error(INVALID_REPEAT_OP)
        if not can_repeat:
            raise Re2Error(MISSING_REPEAT_ARGUMENT)

    def _counted(self) -> bool:
        """Passes over `{n,m}`; one that is written otherwise is a text like any other."""
        found = _REPEAT.match(self.text, self.at)
        if found is None:
            return False
        low = int(found[1][:_DIGITS_MAX])
        high = low if not found[2] else int(found[3][:_DIGITS_MAX]) if found[3] else -1
        if low > REPEAT_MAX or high > REPEAT_MAX or 0 <= high < low:
            raise Re2Error(INVALID_REPEAT_SIZE)
        self.at = found.end()
        return True

    def _item(self, char: str, can_repeat: bool) -> bool:
        """Passes over anything else; whether it, or what is before it and can still be meant, can be repeated."""
        if char == "(":
            return self._open(can_repeat)
        if char == ")":
            if not self.depth:
                raise Re2Error(UNEXPECTED_PAREN)
            self.depth -= 1
        if char == "[":
            self._char_class()
        elif char == "\\":
            return self._backslash()
        else:
            self.at += 1
        return char != "|"

    def _open(self, can_repeat: bool) -> bool:
        if not self.text.startswith("(?", self.at):
            self.at += 1
            self.depth += 1
            return False
        if self.text.startswith(("(?P<", "(?<"), self.at):
            self._named()
            return False
        found = _FLAGS.match(self.text, self.at)
        if found is None or (found[2] and not found[3]):
            raise Re2Error(INVALID_PERL_OP)
        self.at = found.end()
        if found[4] == ")":
            return can_repeat
        self.depth += 1
        return False

    def _named(self) -> None:
        found = _NAME.match(self.text, self.at)
        if found is None or not re.fullmatch(r"\w+", found[1], re.ASCII):
            raise Re2Error(INVALID_NAMED_CAPTURE)
        if found[1] in self.names:
            raise Re2Error(DUPLICATE_NAMED_CAPTURE)
        self.names.add(found[1])
        self.at = found.end()
        self.depth += 1

    def _backslash(self) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("A", "b", "B", "z"):
            self.at += 2
        elif following == "C":
            raise Re2Error(INVALID_ESCAPE)
        elif following == "Q":
            end = self.text.find("\\E", self.at + 2)
            quoted = self.text[self.at + 2 : None if end < 0 else end]
            self.at = len(self.text) if end < 0 else end + 2
            return bool(quoted)
        elif not self._class_escape():
            self._escape()
        return True

    def _class_escape(self) -> bool:
        """Passes over `\\d` and its like, or `\\p{Greek}` and its like."""
        following = self.text[self.at + 1 : self.at + 2]
        if following and following in PERL_CLASSES:
            self.at += 2
            return True
        if following not in ("p", "P"):
            return False
        found = _UNICODE.match(self.text, self.at)
        name = None if found is None else found[3] or found[2]
        if found is None or not name or not (name in SCRIPTS or name == "Any" or _CATEGORY.fullmatch(name)):
            raise Re2Error(INVALID_CHAR_RANGE)
        self.at = found.end()
        return True

    def _escape(self) -> int:
        """Passes over the escape of one character, and gives its number."""
        if self.at + 1 >= len(self.text):
            raise Re2Error(TRAILING_BACKSLASH)
        char = self.text[self.at + 1]
        for pattern, base in ((r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})", 8), (r"\\x([0-9a-fA-F]{2})", 16), (r"\\x\{([0-9a-fA-F]+)\}", 16)):
            found = re.compile(pattern).match(self.text, self.at)
            if found is not None and int(found[1], base) <= RUNE_MAX:
                self.at = found.end()
                return int(found[1], base)
        simple = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
        if char in simple or not (char.isascii() and char.isalnum()):
            self.at += 2
            return simple.get(char, ord(char))
        raise Re2Error(INVALID_ESCAPE)

    def _char_class(self) -> None:
        self.at += 2 if self.text.startswith("[^", self.at) else 1
        is_first = True
        while is_first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise Re2Error(MISSING_BRACKET)
            is_first = False
            if not self._posix_class() and not (self.text[self.at] == "\\" and self._class_escape()):
                self._char_range()
        self.at += 1

    def _posix_class(self) -> bool:
        end = self.text.find(":]", self.at + 2) if self.text.startswith("[:", self.at) else -1
        if end < 0:
            return False
        if not _POSIX_CLASS.fullmatch(self.text[self.at + 2 : end].removeprefix("^")):
            raise Re2Error(INVALID_CHAR_RANGE)
        self.at = end + 2
        return True

    def _char_range(self) -> None:
        low = self._class_char()
        if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at) and self.at + 1 < len(self.text):
            self.at += 1
            if self._class_char() < low:
                raise Re2Error(INVALID_CHAR_RANGE)

    def _class_char(self) -> int:
        if self.at >= len(self.text):
            raise Re2Error(MISSING_BRACKET)
        if self.text[self.at] == "\\":
            return self._escape()
        self.at += 1
        return ord(self.text[self.at - 1])


def validate_regex(regex: str, transcript: Transcript) -> None:
    """Say that it is valid, or what is wrong with it: neither is an error."""
    reason = None
    try:
        check_re2(regex)
        transcript.say(f"The regular expression `{regex}` is valid.")
    except Re2Error as error:
        reason = str(error)
        transcript.say(f"The regular expression `{regex}` is invalid: {reason}.")
    transcript.add(regex=regex, valid=reason is None, reason=reason)
