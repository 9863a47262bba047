"""Settings of members: as one line, and as properties of the Java client."""

from ottla.testing.incidents.members.settings import MemberSettings, java_settings

SETTINGS = MemberSettings(name="m", client="java", servers="127.0.0.1:9092", group="g", topics=("a", "b"), client_id="m")


def test_settings_are_read_as_they_were_written() -> None:
    assert MemberSettings.from_json(SETTINGS.to_json()) == SETTINGS


def test_sessions_are_the_members_own_on_the_classic_protocol_only() -> None:
    classic = java_settings(SETTINGS)
    assert classic["session.timeout.ms"] == "6000"
    assert "group.instance.id" not in classic
    fields = SETTINGS.to_json().replace('"classic"', '"consumer"').replace('"instance_id": null', '"instance_id": "one"')
    new = java_settings(MemberSettings.from_json(fields))
    assert new["group.protocol"] == "consumer"
    assert new["group.instance.id"] == "one"
    assert "session.timeout.ms" not in new
