"""Consumers: how they are given their messages, how they share them, and how they stop."""

import asyncio

from program import LONG_MILLIS, OLD, SHORT_MILLIS, acked, data, items, name, pop, run, same


async def one_at_a_time_until_the_limit(queen):
    await queen.queue(name("one")).push(items(range(5)))
    seen = []

    async def take(message):
        seen.append(message["data"])

    await queen.queue(name("one")).batch(1).limit(3).consume(take)
    same(seen, [0, 1, 2], "what the consumer saw")
    same(data(await pop(queen.queue(name("one")))), [3, 4], "what it left")


async def batches(queen):
    await queen.queue(name("batches")).push(items(range(7)))
    seen = []

    async def take(messages):
        seen.append(data(messages))

    await queen.queue(name("batches")).batch(3).limit(7).consume(take)
    same(seen, [[0, 1, 2], [3, 4, 5], [6]], "the batches")
    same(await pop(queen.queue(name("batches"))), [], "what it left")


async def each_of_a_batch(queen):
    await queen.queue(name("each")).push(items(range(5)))
    seen = []

    async def take(message):
        seen.append(message["data"])

    await queen.queue(name("each")).batch(3).each().limit(5).consume(take)
    same(seen, [0, 1, 2, 3, 4], "what the consumer saw")
    same(await pop(queen.queue(name("each"))), [], "what it left")


async def the_handler_gets_what_its_release_says(queen):
    """Nothing said about batches: 0.15 gives one message, 2.6 always a list."""
    await queen.queue(name("shape")).push(items([1, 2]))
    seen = []

    async def take(given):
        seen.append(given["data"] if isinstance(given, dict) else data(given))

    await queen.queue(name("shape")).limit(2).consume(take)
    same(seen, [1, 2] if OLD else [[1, 2]], "what the handler was given")


async def groups_read_for_themselves(queen):
    queue = name("groups")
    await queen.queue(queue).push(items(range(4)))
    seen = {"mail": [], "audit": []}

    def taking(group):
        async def take(message):
            seen[group].append(message["data"])

        return queen.queue(queue).group(group).batch(1).limit(4).consume(take)

    async def both(group):
        await taking(group)

    await asyncio.gather(both("mail"), both("audit"))
    same(seen, {"mail": [0, 1, 2, 3], "audit": [0, 1, 2, 3]}, "what each group saw")
    same(data(await pop(queen.queue(queue))), [0, 1, 2, 3], "the queue itself, which no consumer has read")


async def workers_share_and_keep_each_partition_in_order(queen):
    queue, partitions, count = name("workers"), 8, 10
    for partition in range(partitions):
        await queen.queue(queue).partition(f"partition-{partition}").push(items([[partition, number] for number in range(count)]))
    seen, busy, clashes, most = [], set(), set(), 0
    stop = asyncio.Event()

    async def take(messages):
        nonlocal most
        partitions_now = {message["partition"] for message in messages}
        clashes.update(partitions_now & busy)
        busy.update(partitions_now)
        most = max(most, len(busy))
        await asyncio.sleep(0.02)
        seen.extend(data(messages))
        busy.difference_update(partitions_now)
        if len(seen) >= partitions * count:
            stop.set()

    consumer = queen.queue(queue).group("team").batch(4).concurrency(4).timeout_millis(SHORT_MILLIS)
    await consumer.consume(take, signal=stop)
    same(clashes, set(), "partitions that two workers had at once")
    same(len(seen), partitions * count, "messages seen")
    for partition in range(partitions):
        same([n for at, n in seen if at == partition], list(range(count)), f"the order of partition {partition}")
    assert most > 1, "the workers never worked at the same time"


async def many_partitions_in_one_pop(queen):
    queue = name("sparse")
    for partition in range(6):
        await queen.queue(queue).partition(f"partition-{partition}").push(items([partition]))
    seen = []

    async def take(messages):
        seen.append(sorted(data(messages)))

    await queen.queue(queue).batch(100).partitions(4).limit(6).consume(take)
    same(([len(batch) for batch in seen], sorted(sum(seen, []))), ([4, 2], list(range(6))), "the batches")


async def a_consumer_waits_for_messages_and_stops_when_asked(queen):
    queue, seen, stop = name("waiting"), [], asyncio.Event()

    async def take(message):
        seen.append(message["data"])
        if message["data"] == "last":
            stop.set()

    async def consume():
        await queen.queue(queue).batch(1).timeout_millis(LONG_MILLIS).consume(take, signal=stop)

    consumer = asyncio.create_task(consume())
    await asyncio.sleep(0.3)
    for payload in ["first", "second", "last"]:
        await queen.queue(queue).push(items([payload]))
    await consumer
    same(seen, ["first", "second", "last"], "what the consumer saw")


async def an_idle_consumer_ends(queen):
    await queen.queue(name("idle")).push(items([1, 2]))
    seen = []

    async def take(message):
        seen.append(message["data"])

    await queen.queue(name("idle")).batch(1).idle_millis(500).timeout_millis(SHORT_MILLIS).consume(take)
    same(seen, [1, 2], "what it saw before it was idle")
    # One that does not wait asks again and again, and ends likewise.
    await queen.queue(name("idle")).push(items([3]))
    await queen.queue(name("idle")).batch(1).wait(False).idle_millis(500).consume(take)
    same(seen, [1, 2, 3], "what it saw without waiting")


async def acks_by_hand(queen):
    queue = name("by-hand")
    await queen.queue(queue).push(items([1, 2, 3]))

    async def take(message):
        if message["data"] < 3:
            await acked(queen, message, True, {"group": "hands"})

    # The third is not acked, and a consumer that asks again would wait for the end of the lease.
    await queen.queue(queue).group("hands").batch(1).auto_ack(False).limit(3).consume(take)
    detail = await queen.admin.get_queue_detail(queue)
    cursor = detail["partitions"][0]["cursors"][0]
    same((cursor["position"], cursor["leasedMessages"]), (2, 1), "what is acked, and what is not")


async def callbacks_ack(queen):
    """With a callback the client leaves the acks to it."""
    queue = name("callbacks")
    await queen.queue(queue).config({"retryLimit": 5}).create()
    await queen.queue(queue).push(items([1, 2]))
    failed, done = [], []

    async def take(message):
        if message["data"] == 1 and not failed:
            raise ValueError("not yet")
        return message["data"] * 10

    async def on_success(message, result):
        done.append(result)
        await acked(queen, message)

    async def on_error(message, error):
        failed.append((message["data"], str(error)))
        await acked(queen, message, False)

    consumer = queen.queue(queue).batch(1).limit(3).consume(take)
    await consumer.on_success(on_success).on_error(on_error)
    same((failed, done), ([(1, "not yet")], [10, 20]), "what the callbacks were reply")
    same(await pop(queen.queue(queue)), [], "what is left")


async def namespaces_and_tasks(queen):
    space, task = name("space"), name("task")
    for queue, of in [("a", (space, task)), ("b", (space, "other")), ("c", ("elsewhere", task))]:
        builder = queen.queue(name(queue)).namespace(of[0]).task(of[1])
        await builder.create()
        await queen.queue(name(queue)).push(items([queue]))
    seen = []

    async def take(message):
        seen.append(message["data"])

    await queen.queue().namespace(space).group("by-space").batch(1).limit(2).consume(take)
    same(sorted(seen), ["a", "b"], "the queues of a namespace")
    by_task = [await pop(queen.queue().task(task).group("by-task")) for _ in range(3)]
    same(sorted(sum(map(data, by_task), [])), ["a", "c"], "the queues of a task")
    both = [await pop(queen.queue().namespace(space).task(task).group("by-both")) for _ in range(2)]
    same([data(messages) for messages in both], [["a"], []], "the queues of both")
    # Of a name with dots the parts are both.
    await queen.queue(f"{name('dotted')}.mail.eu").push(items(["dots"]))
    same(data(await pop(queen.queue().namespace(name("dotted")).task("mail"))), ["dots"], "a name with dots")


run(
    one_at_a_time_until_the_limit,
    batches,
    each_of_a_batch,
    the_handler_gets_what_its_release_says,
    groups_read_for_themselves,
    workers_share_and_keep_each_partition_in_order,
    many_partitions_in_one_pop,
    a_consumer_waits_for_messages_and_stops_when_asked,
    an_idle_consumer_ends,
    acks_by_hand,
    callbacks_ack,
    namespaces_and_tasks,
)
