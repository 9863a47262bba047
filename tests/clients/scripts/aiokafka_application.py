"""A program for aiokafka: it joins a group, lets a second member join, commits, resumes, subscribes to a pattern, seeks, pauses, closes.

Its topic has four partitions with ten records each, whose values are 0 to 39. What it prints does not depend on who gets which partition.
"""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition


class Report(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.name = name
        self.owned = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        print(self.name, "gives up", len(revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        print(self.name, "gets", len(assigned))
        self.owned = len(assigned)


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def main(bootstrap_servers: str, topic: str, group: str) -> None:
    def consumer(*topics: str, **more: Any) -> Any:
        return AIOKafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
            fetch_max_wait_ms=50,
            **more,
        )

    first = consumer(value_deserializer=int, enable_auto_commit=False)
    report = Report("first")
    first.subscribe([topic], listener=report)
    await first.start()
    partitions = [TopicPartition(topic, number) for number in range(4)]
    print(first.subscription() == {topic}, sorted(first.assignment()) == partitions, first.partitions_for_topic(topic))
    print([await first.committed(each) for each in partitions], [await first.position(each) for each in partitions])
    print(sorted([(await first.getone()).value for _ in range(40)]))
    await first.commit({partitions[0]: 4, partitions[1]: (5, "half")})
    print([await first.committed(each) for each in partitions], [await first.position(each) for each in partitions])

    second = consumer(topic, enable_auto_commit=False)
    await second.start()
    await until(lambda: report.owned == 2)
    print(len(second.assignment()), first.assignment() | second.assignment() == set(partitions))
    records: dict[Any, list[int]] = {each: [] for each in partitions}
    for member, count in ((first, None), (second, None)):
        wanted = sum([10 - (await member.committed(each) or 0) for each in member.assignment()])
        while wanted:
            for where, found in (await member.getmany(timeout_ms=1_000, max_records=count)).items():
                records[where] += [record.offset for record in found]
                wanted -= len(found)
    print(list(records.values()))
    await second.commit()
    await first.commit()
    await second.stop()
    await until(lambda: report.owned == 4)
    print([await first.position(each) for each in partitions])

    first.seek(partitions[2], 7)
    print([(await first.getone(partitions[2])).offset for _ in range(3)])
    await first.seek_to_beginning(partitions[3])
    first.pause(partitions[3])
    print(await first.getmany(timeout_ms=100), [each.partition for each in first.paused()])
    first.resume(partitions[3])
    record = await first.getone()
    print(record.topic == topic, record.partition, record.offset, record.key, record.value, record.headers, record.timestamp_type)
    print(record.serialized_key_size, record.serialized_value_size, record.checksum, first.highwater(partitions[3]))
    await first.seek_to_end()
    print([await first.position(each) for each in partitions], list((await first.end_offsets(partitions)).values()))
    print(
        list((await first.beginning_offsets(partitions[:1])).values()),
        list((await first.offsets_for_times({partitions[0]: 2**40 * 10})).values()),
    )
    print((await first.seek_to_committed(partitions[0]))[partitions[0]])
    for mistake in (
        lambda: first.seek(TopicPartition("other", 0), 1),
        lambda: first.seek(partitions[0], -1),
        lambda: first.assign(partitions),
        lambda: first.subscribe(),
        lambda: first.subscribe([topic], listener=7),
    ):
        try:
            mistake()
        except Exception as error:  # noqa: BLE001 - its name is printed
            print(type(error).__name__)
    first.unsubscribe()
    print(first.subscription() == set(), first.assignment())
    await first.stop()

    async with consumer(enable_auto_commit=True) as third:
        report = Report("third")
        third.subscribe(pattern=f"^{topic[:-1]}.$", listener=report)
        await until(lambda: report.owned == 4)
        await third.seek_to_beginning()
        count = 0
        async for _ in third:
            count += 1
            if count == 40:
                break
        print(count, third.subscription() == {topic})
    async with consumer() as fourth:
        fourth.assign(partitions[:2])
        print([await fourth.position(each) for each in partitions[:2]])
        waiting = asyncio.create_task(fourth.getone())
        await asyncio.sleep(0.05)
    try:
        await waiting
    except Exception as error:  # noqa: BLE001 - its name is printed
        print(type(error).__name__)
