import pytest

from ottla.core.diagnosis.evidence.member_ids import name_in_member_id

UUID = "51b6c1d2-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    ("member_id", "name"),
    [
        (f"w1-{UUID}", "w1"),
        (f"consumer-g-1-{UUID}", "consumer-g-1"),
        ("KfqTkGW8RvKSBcfw7XNo6A", None),
        (UUID, None),
        ("", None),
        (None, None),
    ],
)
def test_a_classic_member_id_begins_with_the_name_of_the_client(member_id: str | None, name: str | None) -> None:
    assert name_in_member_id(member_id) == name
