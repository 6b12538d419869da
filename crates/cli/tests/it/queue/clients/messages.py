"""Queues, pushes and pops."""

import asyncio
import uuid

from program import LONG_MILLIS, OLD, SHORT_MILLIS, URLS, acked, data, fails, items, name, pop, run, same, wait
from queen import Queen


async def queues_are_made_configured_and_deleted(queen):
    queue = name("configured")
    made = await queen.queue(queue).namespace("shop").task("orders").config({"leaseTime": 60, "priority": 5}).create()
    same((made["configured"], made["queue"], made["namespace"], made["task"]), (True, queue, "shop", "orders"), "made")
    same((made["options"]["leaseTime"], made["options"]["priority"]), (60, 5), "its options")
    # The client sends its defaults along, so what is not given is set back; and it writes its own keys with underscores.
    changed = await queen.queue(queue).config({"retry_limit": 7, "dlqAfterMaxRetries": True}).create()
    options = changed["options"]
    same((options["retryLimit"], options["leaseTime"], options["priority"]), (7, 300, 0), "changed options")
    same((changed["queueId"], changed["namespace"]), (made["queueId"], "shop"), "the queue that was changed")
    same((await queen.queue(queue).delete())["existed"], True, "deleting it")
    same((await queen.queue(queue).delete())["existed"], False, "deleting it again")
    await fails(queen.queue(queue).config({"leaseTime": "long"}).create(), "leaseTime")


async def payloads_come_back_as_they_went(queen):
    queue = queen.queue(name("payloads"))
    payloads = [{}, None, {"a": [1, 2.5, None, True, "é€😀"]}, [], "text", 0, False, {"": {"data": 1}}]
    pushed = await queue.push(items(payloads))
    same([reply["status"] for reply in pushed], ["queued"] * len(payloads), "what became of each")
    # An item without data is its own payload, and one item needs no list.
    await queue.push({"job": "resize"})
    await queue.push([{"payload": {"job": "crop"}}])
    popped = await pop(queen.queue(name("payloads")))
    same(data(popped), payloads + [{"job": "resize"}, {"job": "crop"}], "payloads, in order")
    same([message["id"] for message in popped[:3]], [reply["message_id"] for reply in pushed[:3]], "ids")
    await acked(queen, popped)
    same(await pop(queen.queue(name("payloads"))), [], "after the ack")


async def partitions_are_independent(queen):
    queue = name("partitions")
    for number in range(3):
        for partition in "abc":
            await queen.queue(queue).partition(partition).push([{"data": f"{partition}{number}"}])
    one = await pop(queen.queue(queue).partition("b"))
    same(data(one), ["b0", "b1", "b2"], "one partition")
    same({message["partition"] for message in one}, {"b"}, "its name")
    rest = await pop(queen.queue(queue).partitions(10))
    same(sorted(data(rest)), ["a0", "a1", "a2", "c0", "c1", "c2"], "the other partitions in one pop")
    for partition in "ac":
        same([d for d in data(rest) if d[0] == partition], [f"{partition}{n}" for n in range(3)], f"the order of {partition}")
    same(len({message["leaseId"] for message in rest}), 1, "leases of one pop")
    assert rest[0]["leaseId"] != one[0]["leaseId"], "two pops share a lease"
    await acked(queen, one + rest)


async def duplicates_are_reported(queen):
    queue = queen.queue(name("duplicates"))
    first = await queue.push([{"transactionId": "order-1", "data": 1}])
    reply = []

    async def on_duplicate(duplicates, error):
        reply.extend(duplicate["transactionId"] for duplicate in duplicates)

    batch = [{"transactionId": t, "data": 2} for t in ["order-1", "order-2", "order-2"]]
    second = await queue.push(batch).on_duplicate(on_duplicate)
    same([one["status"] for one in second], ["duplicate", "queued", "duplicate"], "what became of each")
    same(second[0]["message_id"], first[0]["message_id"], "the message that a duplicate is of")
    same(reply, ["order-1", "order-2"], "what the callback was reply")
    elsewhere = await queen.queue(name("duplicates")).partition("other").push([{"transactionId": "order-1", "data": 3}])
    same(elsewhere[0]["status"], "queued", "the same id in another partition")
    same(data(await pop(queen.queue(name("duplicates")).partitions(2))), [1, 2, 3], "what there is")


async def trace_ids_travel(queen):
    trace = str(uuid.uuid4())
    await queen.queue(name("traced")).push([{"traceId": trace, "data": 1}, {"data": 2}])
    popped = await pop(queen.queue(name("traced")))
    same([message["traceId"] for message in popped], [trace, None], "trace ids")


async def a_pop_waits_for_what_comes(queen):
    queue = name("later")
    waiting = asyncio.create_task(wait(queen.queue(queue), batch=1))
    # A second one, of another partition, that must go on waiting.
    other = asyncio.create_task(wait(queen.queue(queue).partition("other"), batch=1))
    # The queue does not exist yet; whether they wait cannot be seen, so they get some time to begin.
    await asyncio.sleep(0.3)
    await queen.queue(queue).push([{"data": "here"}])
    same(data(await waiting), ["here"], "what came")
    assert not other.done(), "a pop of another partition was answered"
    await queen.queue(queue).partition("other").push([{"data": "there"}])
    same(data(await other), ["there"], "what came there")
    same(await queen.queue(queue).batch(1).timeout_millis(SHORT_MILLIS).pop(), [], "nothing came")


async def names_may_be_anything(queen):
    # The client escapes as little as it must; what reads as an escape, a question mark or a hash is lost on its side.
    for text in ["with space", "ünïcode-😀", "a/b/c", "quo\"te'd", "100% sure", "plus+and&=;"]:
        queue, partition = name(text), f"partition {text}"
        await queen.queue(queue).create()
        await queen.queue(queue).partition(partition).push([{"data": text}])
        popped = await pop(queen.queue(queue).group(f"group {text}"))
        same([(m["data"], m["queue"], m["partition"]) for m in popped], [(text, queue, partition)], text)
        await acked(queen, popped, True, {"group": f"group {text}"})
        same(data(await pop(queen.queue(queue).partition(partition))), [text], f"the partition of {text}")
        same((await queen.queue(queue).delete())["existed"], True, f"deleting {text}")


async def a_full_queue_says_so(queen):
    queue = name("full")
    await queen.queue(queue).config({"maxSize": 2}).create()
    failed = []

    async def on_error(refused, error):
        failed.extend(one["payload"] for one in refused)

    await queen.queue(queue).push(items([1, 2]))
    await fails(queen.queue(queue).push(items([3])), "full")
    await queen.queue(queue).push(items([4])).on_error(on_error)
    same(failed, [4], "what the callback was reply")
    popped = await pop(queen.queue(queue))
    same(data(popped), [1, 2], "what there is")
    await acked(queen, popped)
    await queen.queue(queue).push(items([5]))


async def a_pop_that_says_nothing_gets_what_its_release_expects(queen):
    await queen.queue(name("plain")).push(items(range(5)))
    popped = await queen.queue(name("plain")).timeout_millis(LONG_MILLIS).pop()
    # 0.15 asks for one message; 2.6 leaves the number to the server.
    same(data(popped), [0] if OLD else [0, 1, 2, 3, 4], "what came")
    if OLD:
        return
    await acked(queen, popped)
    await queen.queue(name("plain")).push(items(range(3)))
    result = await queen.queue(name("plain")).batch(2).pop_result()
    same(data(result.messages), [0, 1], "a number that was given")


async def consumed_on_delivery(queen):
    """0.15 has no way to say it."""
    if OLD:
        return
    await queen.queue(name("given")).push(items([1, 2]))
    popped = await queen.queue(name("given")).batch(1).commit_on_delivery().wait(False).pop()
    same((data(popped), popped[0]["leaseId"]), ([1], ""), "consumed by being delivered")
    same(data(await pop(queen.queue(name("given")))), [2], "what comes next")


async def what_this_server_does_not_have_is_refused(queen):
    """2.6 can ask for more than the contract has. Refused it must be, and without a trace: passed over, it would be believed."""
    if OLD:
        return
    queue = name("refused")
    await queen.queue(queue).push(items([1]))
    await fails(queen.queue(queue).group("g").conflation().wait(False).pop(), "conflat")
    async with Queen(url=URLS[0], binary_push=True) as binary:
        await fails(binary.queue(queue).push(items([2])), "content-type")
    popped = await pop(queen.queue(queue).group("g"))
    same(data(popped), [1], "what is there, and not leased")
    gated = queen.transaction().once("dedup", "x", ttl_seconds=60).ack(popped[0]).queue(queue).push(items([3]))
    await fails(gated.commit(), "kv")
    same(data(await pop(queen.queue(queue).group("h"))), [1], "nothing of a gated transaction")
    await fails(queen.queue(queue).fetch(["Default"]), "no route")


run(
    queues_are_made_configured_and_deleted,
    payloads_come_back_as_they_went,
    partitions_are_independent,
    duplicates_are_reported,
    trace_ids_travel,
    a_pop_waits_for_what_comes,
    names_may_be_anything,
    a_full_queue_says_so,
    a_pop_that_says_nothing_gets_what_its_release_expects,
    consumed_on_delivery,
    what_this_server_does_not_have_is_refused,
)
