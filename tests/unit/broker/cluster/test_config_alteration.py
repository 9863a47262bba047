"""Changes of settings, resource by resource: each has one result, and one that is named twice has two refusals."""

from types import SimpleNamespace

from ottla.broker.cluster.config_alteration import alter_resources
from ottla.core.errors import ApiError, ErrorCode, StorageError


class TopicsDouble:
    """Notes what is to be altered; `fails` is raised instead."""

    def __init__(self, fails: StorageError | None = None) -> None:
        self.altered: list[tuple[int, str, list[tuple[str, int, str | None]], bool]] = []
        self.fails = fails

    def alter_config(self, kind, name, changes, *, validate_only):
        if self.fails:
            raise self.fails
        self.altered.append((kind, name, changes, validate_only))
        return ApiError(ErrorCode.INVALID_CONFIG, "Unknown", unknown="retention.m") if name == "unknown" else None


def resource(name: str, *settings: str, kind: int = 2) -> SimpleNamespace:
    return SimpleNamespace(resource_type=kind, resource_name=name, configs=[SimpleNamespace(name=each) for each in settings])


def alter(topics, *resources, changes=()) -> list[tuple[str, ErrorCode, str | None]]:
    found = alter_resources(topics, 1, resources, lambda _resource: changes, validate_only=True)
    return [(each["resource_name"], each["error_code"], each["error_message"]) for each in found if each is not None]


def test_each_resource_is_altered() -> None:
    topics = TopicsDouble()
    changes = [("retention.ms", 0, "5")]
    assert alter(topics, resource("t"), resource("1", kind=4), changes=changes) == [("t", 0, None), ("1", 0, None)]
    assert topics.altered == [(2, "t", changes, True), (4, "1", changes, True)]


def test_a_resource_that_is_named_twice_is_not_altered() -> None:
    topics = TopicsDouble()
    assert [error for _, error, _ in alter(topics, resource("t"), resource("u"), resource("t"))] == [42, 0, 42]
    assert [name for _, name, _, _ in topics.altered] == ["u"]


def test_refusals_have_a_sentence() -> None:
    refused = ApiError(ErrorCode.INVALID_REQUEST, "no")
    assert alter(TopicsDouble(), resource("t"), changes=refused) == [("t", 42, "no")]
    assert alter(TopicsDouble(), resource("t", "a", "a")) == [("t", 42, "Error due to duplicate config keys")]
    assert alter(TopicsDouble(), resource("unknown")) == [("unknown", 40, "Unknown; did you mean 'retention.ms'?")]


def test_a_log_that_cannot_be_written_is_a_result() -> None:
    assert alter(TopicsDouble(StorageError("disk full")), resource("t")) == [("t", ErrorCode.KAFKA_STORAGE_ERROR, "disk full")]


def test_unknown_broker_settings_are_logged(caplog) -> None:
    changes = [*((f"no.such.{number}", 0, "1") for number in range(12)), ("log.retention.ms", 0, "5"), ("gone", 1, None)]
    asked = resource("1", kind=4)
    list(alter_resources(TopicsDouble(), 1, [asked], lambda _resource: changes, validate_only=False))
    assert len(caplog.messages) == 11
    assert caplog.messages[0] == "a broker config was set that is unknown, and that has no effect: no.such.0"
    assert caplog.messages[-1] == "2 more broker configs were set that have no effect"
    alter(TopicsDouble(), asked, changes=changes)
    assert len(caplog.messages) == 11, "nothing is logged of what is only checked"
