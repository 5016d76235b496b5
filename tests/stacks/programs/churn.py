# SPDX-License-Identifier: Apache-2.0
"""Tasks that begin and end all the time, in two threads' loops."""
import asyncio
import threading


async def leaf():
    await asyncio.sleep(0)


async def inner():
    await leaf()


async def outer():
    await asyncio.gather(*[inner() for _ in range(20)])


async def main():
    while True:
        await asyncio.gather(*[outer() for _ in range(10)])


threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
print("ready", flush=True)
asyncio.run(main())
