"""What Java makes of strings: their hash and their order, on which Kafka's placement of groups and lists of names depend."""


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in wrapping signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java's `compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
