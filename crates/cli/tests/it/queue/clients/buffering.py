"""Pushes that the client buffers: by number, by time, until a flush, until it is closed, until the process gets a signal."""

import asyncio
import os
import signal

from program import DONE, URLS, data, items, name, pop, run, same, until
from queen import Queen


def buffered(queen, queue, count, millis):
    return queen.queue(queue).buffer({"message_count": count, "time_millis": millis})


async def arrived(queen, queue, count):
    """That so many are there, as the server counts them: without reading them."""

    async def there():
        queues = (await queen.admin.list_queues(search=queue))["queues"]
        return bool(queues) and queues[0]["messages"]["total"] >= count

    await until(there, f"{count} messages in {queue}")


async def a_full_buffer_is_sent(queen):
    queue = name("by-number")
    for number in range(1_000):
        reply = await buffered(queen, queue, 100, 60_000).push(items([number]))
        same((reply["buffered"], reply["count"]), (True, 1), "what a buffered push says")
    await arrived(queen, queue, 1_000)
    same(data(await pop(queen.queue(queue), batch=1_000)), list(range(1_000)), "all, in order")


async def an_old_buffer_is_sent(queen):
    queue = name("by-time")
    await buffered(queen, queue, 1_000, 200).push(items([1, 2]))
    await arrived(queen, queue, 2)
    same(data(await pop(queen.queue(queue))), [1, 2], "all, in order")


async def a_buffer_is_flushed(queen):
    queue, other = name("flushed"), name("flushed-with-all")
    await buffered(queen, queue, 1_000, 60_000).push(items(range(5)))
    await buffered(queen, other, 1_000, 60_000).push(items(range(7)))
    same(queen.get_buffer_stats()["totalBufferedMessages"], 12, "what waits")
    same(await pop(queen.queue(queue)), [], "before the flush")
    await queen.queue(queue).flush_buffer()
    same(data(await pop(queen.queue(queue))), list(range(5)), "after the flush of one")
    await queen.flush_all_buffers()
    same(data(await pop(queen.queue(other))), list(range(7)), "after the flush of all")
    same(queen.get_buffer_stats()["totalBufferedMessages"], 0, "what still waits")


async def a_client_that_is_closed_sends_what_it_has(queen):
    queue = name("closed")
    async with Queen(URLS[0]) as other:
        await buffered(other, queue, 1_000, 60_000).push(items([1, 2, 3]))
    same(data(await pop(queen.queue(queue))), [1, 2, 3], "what it had")


async def a_process_that_gets_a_signal_sends_its_buffer(queen):
    """The last step: the client ends the process, with code 0, and the test looks for the messages."""
    # The clients that were closed before took their signals with them.
    ending = Queen(URLS[0])
    await buffered(ending, name("ended"), 1_000, 60_000).push(items([1, 2, 3]))
    print(DONE, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(60)


run(
    a_full_buffer_is_sent,
    an_old_buffer_is_sent,
    a_buffer_is_flushed,
    a_client_that_is_closed_sends_what_it_has,
    a_process_that_gets_a_signal_sends_its_buffer,
)
