"""What is remembered of earlier lines has a limit."""

from ottla.core.diagnosis.evidence.broker_log.memory import ENTRIES_MAX, Memory, remember

UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def test_the_oldest_is_forgotten_first() -> None:
    entries: dict[int, int] = {}
    for number in range(ENTRIES_MAX + 5):
        remember(entries, number, number)
    assert (len(entries), min(entries)) == (ENTRIES_MAX, 5)


def test_the_client_id_of_a_dynamic_member_is_in_its_id() -> None:
    memory = Memory()
    assert memory.client_of(f"my client-{UUID}") is None
    assert memory.learn_client(f"my client-{UUID}") == "my client"
    assert memory.client_of(f"my client-{UUID}") == "my client"
    assert memory.learn_client("chosen-by-the-client") is None
