# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait for one another in two threads' loops, and one that runs."""
import asyncio
import threading
import time


async def deep(level):
    if level:
        await deep(level - 1)
    else:
        await asyncio.sleep(1000)


async def numbers():
    yield 1
    await asyncio.sleep(1000)
    yield 2


async def counts():
    async for _ in numbers():
        pass


async def child():
    await deep(2)


async def parent():
    await asyncio.ensure_future(named(child(), "child"))


async def never():
    pass


def named(coroutine, name):
    task = asyncio.ensure_future(coroutine)
    task.set_name(name)
    return task


async def runs():
    await asyncio.sleep(0.2)
    late = named(never(), "late")
    print("ready", flush=True)
    time.sleep(1000)
    await late


async def main():
    await asyncio.gather(named(parent(), "parent"), named(counts(), "counts"), named(runs(), "runs"))


async def other():
    await asyncio.wait([named(deep(0), "other child")])


threading.Thread(target=lambda: asyncio.run(other()), name="second", daemon=True).start()
asyncio.run(main())
