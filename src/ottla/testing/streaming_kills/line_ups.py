"""Who is in the group of a kill test: one query that commits to it, or members that share its partitions."""

from typing import Final, NamedTuple

COMMIT, MEMBER = "commit", "member"
SPARK, PLAIN = "spark", "plain"


class LineUp(NamedTuple):
    """`mode`: the option `ottla.group.mode` of the queries; `members`: SPARK or PLAIN, each a process.

    `assignor`: partition.assignment.strategy of all; `is_static`: the queries have a group.instance.id. `session_ms`: session.timeout.ms,
    for so long the partitions of a killed member are read by no other; the default is the lowest that brokers allow by default.
    """

    name: str
    mode: str
    members: tuple[str, ...]
    assignor: str = "range"
    is_static: bool = False
    session_ms: int = 6_000
    heartbeat_ms: int = 1_000


ALONE: Final = LineUp("a query that commits", COMMIT, (SPARK,))
SHARING: Final = (
    LineUp("one application", MEMBER, (SPARK,)),
    LineUp("two applications", MEMBER, (SPARK, SPARK)),
    LineUp("beside a consumer, range", MEMBER, (SPARK, PLAIN)),
    LineUp("beside a consumer, cooperative-sticky", MEMBER, (SPARK, PLAIN), "cooperative-sticky"),
    LineUp("two static applications", MEMBER, (SPARK, SPARK), "cooperative-sticky", is_static=True),
)


def line_up(mode: str, number: int) -> LineUp:
    """That of the world with this number, from 1 on: in member mode each has its turn."""
    return ALONE if mode == COMMIT else SHARING[(number - 1) % len(SHARING)]
