"""The recipe of docs/testing.md for Spark."""

from pyspark.sql import SparkSession

from ottla.testing import Broker


def test_a_spark_job(spark: SparkSession, ottla_broker: Broker) -> None:
    ottla_broker.create_topic("doubled")
    ottla_broker.produce("orders", [("apples", b"1"), ("pears", b"2")])
    servers = {"kafka.bootstrap.servers": ottla_broker.bootstrap_servers}
    orders = spark.read.format("ottla").options(subscribe="orders", **servers).load()
    doubled = orders.selectExpr("key", "cast(2 * cast(cast(value as string) as int) as string) value")
    doubled.write.format("ottla").options(topic="doubled", **servers).mode("append").save()
    assert {record.key: record.value for record in ottla_broker.consume("doubled", 2)} == {b"apples": b"2", b"pears": b"4"}
