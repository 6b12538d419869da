"""What fails: redelivery, dead letters, and transactions."""

from program import OLD, acked, data, fails, items, name, pop, run, same


async def a_nack_brings_it_back(queen):
    queue = name("nacked")
    await queen.queue(queue).push(items([1, 2, 3]))
    first = await pop(queen.queue(queue))
    # Of the batch the first is done, the second failed: it and what follows come again, in order.
    await acked(queen, first[0])
    await acked(queen, first[1], False, {"error": "no luck"})
    again = await pop(queen.queue(queue))
    same((data(again), again[0]["retryCount"]), ([2, 3], 1), "what came again")
    late = await queen.ack(first[2], True)
    same(late["success"], False, "an ack under a lease that is over")
    await acked(queen, again)
    same(await pop(queen.queue(queue)), [], "after all were acked")


async def a_batch_with_answers_of_their_own(queen):
    queue = name("mixed")
    await queen.queue(queue).push(items([1, 2, 3]))
    popped = await pop(queen.queue(queue).group("g"))
    popped[1].update(_status=False, _error="the second")
    answer = await queen.ack(popped, True, {"group": "g"})
    # A completed message never skips an earlier failed one, and each has its outcome. 2.6 sums the outcomes up, 0.15 does not.
    same([one["success"] for one in answer["results"]], [True, True, False], "the outcome of each")
    same(answer["success"], OLD, "what the client makes of it")
    same(data(await pop(queen.queue(queue).group("g"))), [2, 3], "what came again")


async def a_failing_handler_ends_in_the_dead_letters(queen):
    queue = name("risky")
    await queen.queue(queue).config({"retryLimit": 2, "dlqAfterMaxRetries": True}).create()
    await queen.queue(queue).push([{"transactionId": "bad", "data": "bad"}, {"transactionId": "good", "data": "good"}])
    seen = []

    async def take(message):
        seen.append(message["data"])
        if message["data"] == "bad":
            raise ValueError("it is bad")

    await queen.queue(queue).group("g").batch(1).limit(4).consume(take)
    same(seen, ["bad", "bad", "bad", "good"], "two redeliveries, then the next")
    dead = await queen.queue(queue).dlq("g").limit(10).get()
    same(dead["total"], 1, "dead letters")
    letter = dead["messages"][0]
    same((letter["data"], letter["transactionId"], letter["consumerGroup"]), ("bad", "bad", "g"), "the dead letter")
    # 0.15 does not say why a handler failed.
    same(letter["errorMessage"], None if OLD else "it is bad", "its reason")
    same((await queen.queue(queue).dlq("another").get())["total"], 0, "of another group")
    same((await queen.queue(queue).dlq().offset(1).get())["messages"], [], "behind the last")
    same((await queen.queue(queue).dlq().from_("2020-01-01T00:00:00Z").to("2020-01-02T00:00:00Z").get())["total"], 0, "once")


async def a_failing_batch_comes_again_whole(queen):
    queue = name("batch-fails")
    await queen.queue(queue).push(items(range(3)))
    seen = []

    async def take(messages):
        seen.append(data(messages))
        if len(seen) == 1:
            raise ValueError("the first time")

    await queen.queue(queue).batch(10).limit(6).consume(take)
    same(seen, [[0, 1, 2], [0, 1, 2]], "the batches")
    same(await pop(queen.queue(queue)), [], "what is left")


async def each_that_fails_keeps_the_order(queen):
    queue = name("each-fails")
    await queen.queue(queue).push(items(range(4)))
    seen = []

    async def take(message):
        seen.append(message["data"])
        if message["data"] == 1 and seen.count(1) == 1:
            raise ValueError("the first time")

    # 0.15 goes on with the rest of the batch; those acks come too late and are refused, so that nothing is skipped.
    expected = [0, 1, 2, 3, 1, 2, 3] if OLD else [0, 1, 1, 2, 3]
    await queen.queue(queue).batch(10).each().limit(len(expected)).consume(take)
    same(seen, expected, "what the handler saw")
    same(await pop(queen.queue(queue)), [], "what is left")
    same((await queen.queue(queue).dlq().get())["total"], 0, "dead letters")


async def other_statuses(queen):
    queue = name("statuses")
    await queen.queue(queue).config({"retryLimit": 1}).create()
    await queen.queue(queue).push(items([1, 2]))
    for _ in range(3):
        first = await pop(queen.queue(queue), batch=1)
        same((data(first), first[0]["retryCount"]), ([1], 0), "given back, not charged")
        await acked(queen, first[0], "retry")
    await acked(queen, (await pop(queen.queue(queue), batch=1))[0], "dlq", {"error": "by hand"})
    dead = await queen.queue(queue).dlq().get()
    same([(one["data"], one["errorMessage"]) for one in dead["messages"]], [(1, "by hand")], "dead letters")
    popped = await pop(queen.queue(queue))
    same(data(popped), [2], "what is left")
    refused = await queen.ack(popped[0], "whatever")
    same((refused["success"], "whatever" in refused["error"]), (False, True), "a status that is not known")
    same(await queen.ack([], True), {"processed": 0, "results": []}, "no messages")


async def a_transaction_happens_whole(queen):
    source, target = name("source"), name("target")
    await queen.queue(source).push(items([1, 2]))
    popped = await pop(queen.queue(source), batch=1)
    done = await (
        queen.transaction().ack(popped[0]).queue(target).push(items(["x"])).queue(target).partition("partition").push(items(["y"])).commit()
    )
    same(done["success"], True, "the transaction")
    same(sorted(data(await pop(queen.queue(target).partitions(2)))), ["x", "y"], "what was pushed")
    same(data(await pop(queen.queue(source))), [2], "what is left")


async def a_transaction_of_a_group(queen):
    source, target = name("group-source"), name("group-target")
    await queen.queue(source).partition("p").push(items([1]))
    await queen.queue(source).partition("q").push(items([2]))
    popped = await pop(queen.queue(source).group("g").partitions(2))
    # Once with the group, once without: the lease says whose it is.
    transaction = queen.transaction().ack(popped[0], "completed", {"consumer_group": "g"}).ack(popped[1])
    await transaction.queue(target).push(items(["done"])).commit()
    same(await pop(queen.queue(source).group("g").partitions(2)), [], "what is left for the group")
    same(len(await pop(queen.queue(source).partitions(2))), 2, "what others read")


async def a_transaction_that_fails_leaves_nothing(queen):
    source, target = name("lost-source"), name("lost-target")
    await queen.queue(source).push(items([1]))
    popped = await pop(queen.queue(source))
    await acked(queen, popped[0], "retry")
    late = queen.transaction().queue(target).push(items(["x"])).ack(popped[0])
    error = await fails(late.commit(), "lease")
    assert "Transaction failed" not in str(error), "it says why"
    same(await pop(queen.queue(target)), [], "what was pushed")
    same(data(await pop(queen.queue(source))), [1], "what was not acked")
    await fails(queen.transaction().commit(), "no operations")


run(
    a_nack_brings_it_back,
    a_batch_with_answers_of_their_own,
    a_failing_handler_ends_in_the_dead_letters,
    a_failing_batch_comes_again_whole,
    each_that_fails_keeps_the_order,
    other_statuses,
    a_transaction_happens_whole,
    a_transaction_of_a_group,
    a_transaction_that_fails_leaves_nothing,
)
