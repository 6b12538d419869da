"""What depends on time: leases and their renewal, delays, quiet partitions.

A slow machine makes everything later and nothing earlier, so only what must not come too early is held against the clock.
"""

import asyncio
import time

from program import OLD, acked, data, items, name, pop, run, same, wait


async def the_end_of_a_lease_brings_it_back(queen):
    queue = name("lease")
    await queen.queue(queue).config({"leaseTime": 3}).create()
    await queen.queue(queue).push(items([1, 2]))
    first = await pop(queen.queue(queue))
    # Without a push or an ack: the end of the lease itself must wake the pop.
    again = await wait(queen.queue(queue))
    same((data(again), again[0]["retryCount"]), ([1], 1), "the first, alone: its lease ended once")
    late = await queen.ack(first[0], True)
    same(late["success"], False, "an ack under the lease that ended")
    await acked(queen, again)
    rest = await wait(queen.queue(queue))
    same((data(rest), rest[0]["retryCount"]), ([2], 1), "the second, in order")
    await acked(queen, rest)


async def a_renewed_lease_lasts(queen):
    queue = name("renewed")
    await queen.queue(queue).config({"leaseTime": 3}).create()
    await queen.queue(queue).partition("a").push(items([1]))
    await queen.queue(queue).partition("b").push(items([2]))
    popped = await pop(queen.queue(queue).partitions(2))
    waiting = asyncio.create_task(wait(queen.queue(queue)))
    began = time.monotonic()
    while time.monotonic() - began < 4.5:
        # One lease of two messages: one answer. By message, by lease, by list.
        renewed = await queen.renew(popped)
        same((len(renewed), renewed[0]["success"]), (1, True), "a renewal")
        assert renewed[0]["newExpiresAt"], "it says until when"
        await asyncio.sleep(0.5)
    same(((await queen.renew(popped[0]))["success"], (await queen.renew(popped[0]["leaseId"]))["success"]), (True, True), "renewals")
    assert not waiting.done(), "a renewed lease ended"
    await acked(queen, popped)
    gone = await queen.renew(popped[0])
    # 0.15 treats every response as a success, but gets no time.
    same((gone["success"], gone.get("newExpiresAt")), (OLD, None), "a lease that is over")
    await queen.queue(queue).push(items(["end"]))
    same(data(await waiting), ["end"], "what came at last")


async def a_consumer_renews_by_itself(queen):
    queue, seen = name("renewing"), []
    await queen.queue(queue).config({"leaseTime": 3}).create()
    await queen.queue(queue).push(items([1]))

    async def take(message):
        seen.append(message["data"])
        await asyncio.sleep(4.5)

    async def consume():
        await queen.queue(queue).batch(1).limit(1).renew_lease(True, 500).consume(take)

    consumer = asyncio.create_task(consume())
    rival = asyncio.create_task(wait(queen.queue(queue)))
    await asyncio.wait({consumer, rival}, return_when=asyncio.FIRST_COMPLETED)
    if rival.done():
        # Both asked at once, and the other was first: the consumer gets it back.
        await acked(queen, await rival, "retry")
        rival = asyncio.create_task(wait(queen.queue(queue)))
    await consumer
    assert not rival.done(), "the lease ended under the handler"
    same(seen, [1], "what the consumer saw")
    await queen.queue(queue).push(items(["end"]))
    same(data(await rival), ["end"], "what came at last")


async def a_delayed_message_comes_when_it_is_due(queen):
    queue = name("delayed")
    await queen.queue(queue).config({"delayedProcessing": 2}).create()
    began = time.monotonic()
    await queen.queue(queue).push(items([1]))
    same(data(await wait(queen.queue(queue))), [1], "what came")
    assert time.monotonic() - began > 1.9, "it came before its time"


async def a_window_waits_for_a_pause_in_pushes(queen):
    queue = name("window")
    await queen.queue(queue).config({"windowBuffer": 2}).create()
    waiting = asyncio.create_task(wait(queen.queue(queue)))
    for number in range(3):
        await queen.queue(queue).push(items([number]))
        last = time.monotonic()
        await asyncio.sleep(0.3)
    same(data(await waiting), [0, 1, 2], "all of it, once it was quiet")
    assert time.monotonic() - last > 1.9, "it came before it was quiet"


async def a_retry_may_be_delayed(queen):
    queue = name("retry-delay")
    await queen.queue(queue).config({"retryDelay": 1500}).create()
    await queen.queue(queue).push(items([1]))
    popped = await pop(queen.queue(queue))
    began = time.monotonic()
    await acked(queen, popped[0], False)
    again = await wait(queen.queue(queue))
    same((data(again), again[0]["retryCount"]), ([1], 1), "what came again")
    assert time.monotonic() - began > 1.4, "it came before its time"


async def all_at_once(queen):
    """They wait for nothing but the clock, so they wait together."""
    await asyncio.gather(
        the_end_of_a_lease_brings_it_back(queen),
        a_renewed_lease_lasts(queen),
        a_consumer_renews_by_itself(queen),
        a_delayed_message_comes_when_it_is_due(queen),
        a_window_waits_for_a_pause_in_pushes(queen),
        a_retry_may_be_delayed(queen),
    )


run(all_at_once)
