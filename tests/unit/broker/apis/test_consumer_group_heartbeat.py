"""ConsumerGroupHeartbeat: refused with a sentence, and a line in the log."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(2))
def test_every_version_is_refused(api, version: int, caplog) -> None:
    answer = api.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id="g",
        member_id="m",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=300_000,
        subscribed_topic_names=["t"],
        server_assignor=None,
        topic_partitions=[],
    )
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (35, 0, None)
    assert "group.protocol=classic" in answer.error_message
    (line,) = caplog.messages
    assert line.startswith("client test of /127.0.0.1 asks for the consumer group protocol")
