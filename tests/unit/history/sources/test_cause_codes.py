"""The cause codes: spelled as people write them in queries and alerts."""

from ottla.history.sources.cause_codes import Cause


def test_a_cause_is_its_own_text() -> None:
    assert [cause.value for cause in Cause] == [cause.name for cause in Cause]
    assert f"{Cause.POLL_TIMEOUT}" == "POLL_TIMEOUT"
