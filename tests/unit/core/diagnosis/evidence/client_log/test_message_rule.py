"""What is remembered of a client's earlier messages completes later ones, and has a limit."""

from ottla.core.diagnosis.evidence.client_log.message_rule import MEMBERS_MAX, ClientPast, first_facts, rule
from ottla.core.diagnosis.evidence.model import Kind


def joined(client: str, group: str | None, generation: int) -> dict[str, object]:
    return {"kind": Kind.CLIENT_JOINED, "client_id": client, "group": group, "generation": generation, "member_id": f"{client}-1"}


def test_what_names_no_member_has_that_of_the_clients_last_join() -> None:
    past = ClientPast()
    past.complete(joined("a", "g", 3))
    past.complete(joined("b", "g", 4))
    assert past.complete({"kind": Kind.CLIENT_LOST, "client_id": "a", "group": "g"})["member_id"] == "a-1"
    assert past.complete({"kind": Kind.CLIENT_LOST, "client_id": "b", "group": "g"})["generation"] == 4
    assert "member_id" not in past.complete({"kind": Kind.CLIENT_LOST, "client_id": "c", "group": "g"})


def test_the_group_is_known_where_there_is_one_only() -> None:
    past = ClientPast()
    assert past.only_group() is None
    past.complete(joined("a", "g", 3))
    assert past.only_group() == "g"
    past.complete(joined("a", "h", 3))
    assert past.only_group() is None


def test_members_are_forgotten_beyond_the_limit() -> None:
    past = ClientPast()
    for number in range(MEMBERS_MAX + 2):
        past.complete(joined(str(number), "g", 1))
        past.is_new_epoch(str(number), 1)
    assert len(past.joined) == len(past.epochs) == MEMBERS_MAX


def test_the_first_rule_that_fits_is_taken() -> None:
    rules = (rule("a", lambda found, _: ({"first": found[0]},)), rule("ab", lambda found, _: ({"second": found[0]},)))
    assert first_facts("ab", rules, ClientPast()) == ({"first": "a"},)
    assert first_facts("b", rules, ClientPast()) == ()
