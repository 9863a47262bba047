"""Open transactions of a coordinator: the oldest, and those whose timeout is over."""

from ottla.transactions import open_transactions
from ottla.transactions.open_transactions import NEVER_MS, OpenTransactions


def test_the_oldest_and_those_that_are_overdue() -> None:
    opened = OpenTransactions()
    assert opened.oldest_start_ms is None
    opened.begin("long", start_ms=10, timeout_ms=1_000)
    opened.begin("for ever", start_ms=11, timeout_ms=NEVER_MS)
    opened.begin("short", start_ms=12, timeout_ms=5)
    assert (len(opened), opened.oldest_start_ms) == (3, 10)
    assert opened.overdue(17, 9) == [], "not at its deadline, but after it"
    assert opened.overdue(18, 9) == ["short"]
    assert opened.overdue(18, 9) == ["short"], "until it has ended"
    opened.end("short")
    assert opened.overdue(18, 9) == []
    assert opened.overdue(NEVER_MS + 100, 9) == ["long"]
    opened.end("long")
    assert opened.oldest_start_ms == 11
    opened.clear()
    assert len(opened) == 0
    assert opened.overdue(NEVER_MS, 9) == []


def test_the_next_transaction_of_an_id_has_its_own_time() -> None:
    opened = OpenTransactions()
    opened.begin("x", start_ms=10, timeout_ms=5)
    opened.end("x")
    opened.begin("x", start_ms=13, timeout_ms=5)
    assert opened.overdue(17, 9) == []
    assert opened.overdue(19, 9) == ["x"]


def test_so_many_at_once() -> None:
    opened = OpenTransactions()
    for number in range(5):
        opened.begin(f"{number}", start_ms=number, timeout_ms=5)
    assert opened.overdue(100, 3) == ["0", "1", "2"]
    for name in ("0", "1", "2"):
        opened.end(name)
    assert opened.overdue(100, 3) == ["3", "4"]


def test_what_has_ended_takes_no_room() -> None:
    opened = OpenTransactions()
    opened.begin("first", start_ms=0, timeout_ms=10_000_000)
    for number in range(3 * open_transactions._STALE_MAX):
        opened.begin("x", start_ms=number, timeout_ms=1_000_000)
        opened.end("x")
    assert len(opened._deadlines) <= open_transactions._STALE_MAX + 3
    assert opened.overdue(10_000_001, 9) == ["first"]
