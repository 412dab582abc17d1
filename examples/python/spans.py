#!/usr/bin/env python3
"""spans.py -- what a program can say of itself: spans, steps, regions, counters, coroutines.

usage: spans.py [FILE.opm]

SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import sys

import opmeter


@opmeter.span("decode", category="input")
def decode(n):
    return [i * i for i in range(n)]


@opmeter.span
async def fetch(n):
    await asyncio.sleep(0.001 * n)
    return n


async def fetch_all():
    async with opmeter.span("fetch all"):
        return await asyncio.gather(*(fetch(n) for n in range(3)))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "spans.opm"
    loss = opmeter.counter("loss")
    with opmeter.profile(file=path, schedule=opmeter.schedule(wait=1, warmup=1, active=3, repeat=1),
                         model="net") as p:
        for i in range(6):
            with opmeter.span("load", n=i) as load:
                rows = decode(1000)
                load.set(rows=len(rows))
            with opmeter.span("train", layer="framework"):
                asyncio.run(fetch_all())
            loss.set(1 / (i + 1))
            p.step()
    p.print_summary()
    for row in p.trace.rows("SELECT name, count, mean_ns FROM span_stats"
                            " WHERE cat IS NOT 'step' ORDER BY name"):
        print(f"{row['name']:<12} {row['count']:>3} {row['mean_ns']:>12.0f} ns")


if __name__ == "__main__":
    main()
