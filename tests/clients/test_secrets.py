"""Passwords and keys appear nowhere: not in DescribeConfigs, logs and dumps; and only their owner may read the files that have them."""

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.metadata.records import ConfigRecord, DecodedRecord, metadata_record_json
from ottla.testing.security.certificates import HOSTS, CertificateAuthority


def test_no_secret_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = CertificateAuthority().issue("CN=broker", hosts=HOSTS)
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key,
        "ssl.keystore.certificate.chain": own.certificate,
        "ssl.key.password": "geheim-1",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.in.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="geheim-2";',
    }
    caplog.set_level(logging.DEBUG)
    users = ["SCRAM-SHA-256=[name=alice,password=geheim-3]"]
    with Broker(tmp_path, listeners=["PLAINTEXT://127.0.0.1:0", "IN://127.0.0.1:0"], config=config, scram_users=users) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = ConfigResource(ResourceType.BROKER, "1")
        described = admin.describe_configs([resource])[resource].result()
    shown = {name: entry.value for name, entry in described.items() if entry.is_sensitive}
    assert shown["ssl.keystore.key"] is None
    assert set(shown.values()) == {None}
    dumped = CliRunner().invoke(main, ["dump-log", "--cluster-metadata-decoder", "--files", str(next(tmp_path.glob("__cluster*/*.log")))])
    assert '"name":"alice","mechanism":1,"salt":"[hidden]","storedKey":"[hidden]","serverKey":"[hidden]"' in dumped.output
    for text in (caplog.text, dumped.output, repr(described)):
        assert "geheim" not in text
        assert "PRIVATE" not in text
    secret = [tmp_path / "__cluster_metadata-0", *tmp_path.glob("__cluster_metadata-0/*")]
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in secret if path.stat().st_mode & 0o077} == {}


@pytest.mark.parametrize(
    ("name", "value"), [("ssl.keystore.key", "[hidden]"), ("listener.name.x.ssl.key.password", "[hidden]"), ("a", "b")]
)
def test_settings_that_are_passwords_are_hidden_in_dumps(name: str, value: str) -> None:
    record = ConfigRecord(resource_type=4, resource_name="1", name=name, value="b")
    assert metadata_record_json(DecodedRecord(4, None, 0, record))["data"]["value"] == value
