"""The comparison of ACLs finds brokers that differ."""

from ottla.broker import Broker
from trials.acl_scripts import CONFIG, AclScripts


def test_brokers_that_differ_are_found() -> None:
    with (
        Broker(config=CONFIG) as one,
        Broker(config={**CONFIG, "super.users": "User:ANONYMOUS"}) as other,
        AclScripts([one.bootstrap_servers, other.bootstrap_servers]) as scripts,
    ):
        assert any("decisions" in found for seed in range(3) for found in scripts.differences(seed))
