"""Numbers as a sentence writes them."""


def counted(number: int, noun: str) -> str:
    """`1 rebalance`, `3 rebalances`, `1,200 members`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(milliseconds: float) -> str:
    """A time span in the largest unit that leaves it readable: `340 ms`, `6.1 s`, `4 min 10 s`, `2 h 5 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
