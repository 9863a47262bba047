"""Makes text from clients safe to show: on one line, without characters that control a terminal or reorder the text beside them."""


def printable(text: str) -> str:
    """`text` with every character that is not printable as a Python escape: a newline is `\\n`, ESC is `\\x1b`.

    Group, member and client ids may hold any character; in a log line or a table they could forge lines or control the terminal.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
