"""Consumer groups: where they begin, and how they are moved."""

import asyncio
from datetime import datetime, timezone

from program import LONG_MILLIS, acked, data, items, name, pop, run, same, until


async def where_a_group_begins(queen):
    queue = name("begins")
    await queen.queue(queue).push(items(["old"]))
    middle = (await pop(queen.queue(queue).group("all")))[0]["createdAt"]
    await asyncio.sleep(0.01)
    between = datetime.now(timezone.utc).isoformat()
    await asyncio.sleep(0.01)
    same(await pop(queen.queue(queue).group("new").subscription_mode("new")), [], "a group of what comes")
    same(await pop(queen.queue(queue).group("now").subscription_from("now")), [], "another")
    await queen.queue(queue).push(items(["young"]))
    begins = [
        ("new", "new", None, ["young"]),
        ("now", None, "now", ["young"]),
        ("everything", "all", None, ["old", "young"]),
        ("unknown", "whatever", None, ["old", "young"]),
        ("since", None, between, ["young"]),
        ("from the first", None, middle, ["old", "young"]),
        ("long ago", None, "2020-01-01T00:00:00.000Z", ["old", "young"]),
        ("with Z", None, between.replace("+00:00", "Z"), ["young"]),
    ]
    for group, mode, since, expected in begins:
        builder = queen.queue(queue).group(group)
        if mode:
            builder.subscription_mode(mode)
        if since:
            builder.subscription_from(since)
        same(data(await pop(builder)), expected, group)


async def a_consumer_of_what_comes(queen):
    queue, group, seen = name("posts"), name("readers"), []
    await queen.queue(queue).push(items(["before"]))

    async def take(message):
        seen.append(message["data"])

    async def consume():
        consumer = queen.queue(queue).group(group).subscription_mode("new").batch(1).limit(2)
        await consumer.timeout_millis(LONG_MILLIS).consume(take)

    consumer = asyncio.create_task(consume())

    async def begun():
        return any(one["name"] == group for one in await queen.admin.list_consumer_groups())

    await until(begun, "the group is listed")
    await queen.queue(queue).push(items(["first"]))
    await queen.queue(queue).push(items(["second"]))
    await consumer
    same(seen, ["first", "second"], "what the consumer saw")


async def a_group_is_moved(queen):
    queue = name("moved")
    await queen.queue(queue).push(items([1, 2]))
    popped = await pop(queen.queue(queue).group("g"))
    await acked(queen, popped, True, {"group": "g"})
    await asyncio.sleep(0.01)
    between = datetime.now(timezone.utc).isoformat()
    await asyncio.sleep(0.01)
    await queen.queue(queue).push(items([3]))
    moved = await queen.admin.seek_consumer_group("g", queue, {"timestamp": popped[0]["createdAt"]})
    same(moved["success"], True, "moving it back")
    again = await pop(queen.queue(queue).group("g"))
    same(data(again), [1, 2, 3], "from the first on")
    await queen.admin.seek_consumer_group("g", queue, {"timestamp": between})
    same((await queen.ack(again[0], True, {"group": "g"}))["success"], False, "who read has lost the lease")
    same(data(await pop(queen.queue(queue).group("g"))), [3], "from then on")
    await queen.admin.seek_consumer_group("g", queue, {"toEnd": True})
    same(await pop(queen.queue(queue).group("g")), [], "at the end")
    await queen.queue(queue).push(items([4]))
    same(data(await pop(queen.queue(queue).group("g"))), [4], "what came after")


async def a_group_is_deleted(queen):
    queue, group = name("left"), name("leaving")
    await queen.queue(queue).push(items([1, 2]))

    async def read():
        popped = await pop(queen.queue(queue).group(group))
        if popped:
            await acked(queen, popped, True, {"group": group})
        return data(popped)

    same([await read(), await read()], [[1, 2], []], "read once")
    same((await queen.delete_consumer_group(group))["success"], True, "deleting it")
    same(await read(), [1, 2], "it comes back")
    await queen.admin.delete_consumer_group_for_queue(group, queue)
    same(await read(), [1, 2], "it comes back to that queue")
    await asyncio.sleep(0.01)
    between = datetime.now(timezone.utc).isoformat()
    await asyncio.sleep(0.01)
    await queen.queue(queue).push(items([3]))
    same((await queen.update_consumer_group_timestamp(group, between))["success"], True, "where it begins")
    await queen.delete_consumer_group(group, False)
    same(await read(), [3], "it begins again where it is said to have begun")


run(where_a_group_begins, a_consumer_of_what_comes, a_group_is_moved, a_group_is_deleted)
