"""`ottla groups --validate-regex`: says whether brokers would take a regular expression. It asks none."""

from ottla.cli.groups.re2_syntax import Re2Error, check_re2
from ottla.cli.groups.transcript import Transcript


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
