"""The mistakes that people make with a broker's settings, each with the message that it must give: what is wrong, and what to write."""

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.config import ConfigError

MISTAKES = {
    "a letter is missing": (
        "num.partition=3",
        "unknown setting num.partition; did you mean 'num.partitions'? `ottla docs settings` lists them",
    ),
    "the name of an environment variable of container images": (
        "KAFKA_NUM_PARTITIONS=3",
        "unknown setting KAFKA_NUM_PARTITIONS; did you mean 'num.partitions'? `ottla docs settings` lists them",
    ),
    "the name of a topic's setting": (
        "retention.ms=1000",
        "retention.ms is a setting of topics; the broker's default for all of them is log.retention.ms",
    ),
    "a size with its unit": ("message.max.bytes=1MB", "Invalid value 1MB for configuration message.max.bytes: Not a number of type INT"),
    "a time with its unit": ("log.retention.ms=7d", "Invalid value 7d for configuration log.retention.ms: Not a number of type LONG"),
    "yes for true": (
        "auto.create.topics.enable=yes",
        "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false",
    ),
    "a misspelt choice": (
        "log.cleanup.policy=compct",
        "Invalid value compct for configuration log.cleanup.policy: String must be one of: compact, delete",
    ),
    "segments as small as in a test of long ago": (
        "log.segment.bytes=100",
        "Invalid value 100 for configuration log.segment.bytes: Value must be at least 1048576",
    ),
    "three replicas on one broker": (
        "default.replication.factor=3",
        "default.replication.factor (3) > the number of brokers (1): no topic could be created with it; lower it to 1, or run more brokers "
        "(--brokers, Cluster)",
    ),
    "bounds that leave nothing": (
        "group.min.session.timeout.ms=60000000",
        "group.min.session.timeout.ms (60000000) > group.max.session.timeout.ms (1800000): no member of a group could join; raise the "
        "second or lower the first",
    ),
    "a listener with TLS": (
        "listener.security.protocol.map=PLAINTEXT:SSL",
        "the listener PLAINTEXT has the protocol SSL, and no certificate: give ssl.keystore.type with ssl.keystore.location, or with"
        " ssl.keystore.key and ssl.keystore.certificate.chain (`ottla docs security`)",
    ),
    "port, as in an old server.properties": (
        "port=9092",
        "port is not a setting here: the address is given with listeners, or with --listen HOST:PORT, in Python with Broker(listen=...)",
    ),
    "log.dirs, as in server.properties": (
        "log.dirs=/var/lib/kafka",
        "log.dirs is not a setting here: the data directory is given with --data DIR, in Python with Broker(DIR)",
    ),
    "zookeeper.connect, as in an old server.properties": (
        "zookeeper.connect=localhost:2181",
        "zookeeper.connect is not a setting here: this broker has neither ZooKeeper nor a controller quorum: leave it out",
    ),
}


@pytest.mark.parametrize(("given", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_setting(given: str, message: str) -> None:
    """The command line and Python give the same message."""
    ran = CliRunner().invoke(main, ["broker", "--listen", "127.0.0.1:0", "--config", given])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", f"Error: {message}\n")
    name, _, value = given.partition("=")
    with pytest.raises(ConfigError) as refused:
        Broker(config={name: value})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "num.partitions"], "'num.partitions': write a setting as NAME=VALUE, for example num.partitions=3"),
        (["--listen", "9092"], "cannot listen on '9092': write HOST:PORT, for example 127.0.0.1:9092 (port 0 takes any free one)"),
        (
            ["--listen", "127.0.0.1:0", "--config", "listeners=PLAINTEXT://:9092"],
            "the address is given twice: as '127.0.0.1:0' (--listen, Broker(listen=...)), and with listeners",
        ),
        (["--listen", "PLAINTEXT://:9092"], "cannot listen on 'PLAINTEXT://:9092': write HOST:PORT, for example 127.0.0.1:9092"),
    ],
)
def test_an_option(arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(main, ["broker", *arguments])
    assert ran.exit_code in (1, 2)
    assert message in " ".join(ran.stderr.split())
