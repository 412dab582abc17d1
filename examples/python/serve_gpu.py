#!/usr/bin/env python3
"""serve_gpu.py -- a small language model that serves many requests at once, in PyTorch.

    opmeter record -o serve.opm -- python3 serve_gpu.py
    opmeter llm serve.opm

Requests arrive at random times with prompts of random lengths. The loop takes new ones up while
others are being answered (continuous batching): an iteration reads the prompts of those that have
just been taken up, and makes one token more of each of the others. It tells opmeter of requests,
iterations and tokens; without the package it serves all the same. On a GPU where there is one;
--dry leaves PyTorch out and makes up tokens, to look at the loop. The last line of output is a JSON
object with the loop's own counts and times.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import contextlib
import json
import random
import statistics
import time

try:
    import opmeter
except ImportError:
    opmeter = None


class Told:
    """A request as opmeter is told of it, or nobody."""

    def __init__(self, name, prompt):
        self.known = opmeter and opmeter.request(name, tokens_in=len(prompt), model="decoder")

    def __getattr__(self, what):
        return getattr(self.known, what) if self.known else lambda *args, **kwargs: None


class Iteration:
    def __init__(self, number):
        self.known = opmeter and opmeter.iteration(number)

    def __enter__(self):
        return (self.known or contextlib.nullcontext(self)).__enter__()

    def __exit__(self, *reason):
        if self.known:
            self.known.__exit__(*reason)

    def add(self, *args, **kwargs):
        pass


class Request:
    def __init__(self, name, prompt, wanted):
        self.prompt, self.wanted = prompt, wanted
        self.tokens = []
        self.slot = None  # its place in the cache
        self.arrived = time.perf_counter()
        self.times = []
        self.told = Told(name, prompt)

    @property
    def context(self):
        """Tokens in the cache once the last token was read."""
        return len(self.prompt) + len(self.tokens)

    def got(self, token):
        self.tokens.append(token)
        self.times.append(time.perf_counter())
        self.told.token()
        return len(self.tokens) == self.wanted


# ---- models ----

class Dry:
    """Tokens out of nothing, after a while."""

    def prefill(self, slot, prompt):
        time.sleep(2e-6 * len(prompt))
        return sum(prompt) % 1000

    def decode(self, slots, tokens, positions):
        time.sleep(1e-4)
        return [(7 * token + position) % 1000 for token, position in zip(tokens, positions)]


def decoder(torch, args, device):
    """A transformer with random weights, and a cache that has a place for every request in a batch."""
    functional, nn = torch.nn.functional, torch.nn
    dtype = torch.float16 if device == "cuda" else torch.float32
    width, heads, longest = args.width, args.width // 64, args.prompt + args.tokens

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            cache = torch.zeros(2, args.slots, heads, longest, 64)
            self.register_buffer("cache", cache)

        def forward(self, x, slots, positions, mask):
            rows, n = x.shape[:2]
            q, k, v = self.qkv(self.before(x)).view(rows, n, 3, heads, 64).unbind(2)
            self.cache[0][slots, :, positions] = k.flatten(0, 1)
            self.cache[1][slots, :, positions] = v.flatten(0, 1)
            if mask is None:  # a prompt looks at itself
                keys, values = k.transpose(1, 2), v.transpose(1, 2)
            else:
                keys, values = (half[slots, :, :mask.shape[-1]] for half in self.cache)
            seen = functional.scaled_dot_product_attention(q.transpose(1, 2), keys, values,
                                                           attn_mask=mask, is_causal=mask is None)
            x = x + self.out(seen.transpose(1, 2).reshape(rows, n, width))
            return x + self.down(functional.gelu(self.up(self.between(x))))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(args.words, width), nn.Embedding(longest, width)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, args.words, bias=False)

        def run(self, tokens, slots, positions, mask=None):
            """Tokens of each row; slots and positions of all of them, one after the other."""
            x = self.words(tokens) + self.places(positions).view(*tokens.shape, width)
            for block in self.blocks:
                x = block(x, slots, positions, mask)
            return self.head(self.norm(x[:, -1])).argmax(-1).tolist()

        @torch.inference_mode()
        def prefill(self, slot, prompt):
            tokens = torch.tensor([prompt], device=device)
            positions = torch.arange(len(prompt), device=device)
            return self.run(tokens, torch.full_like(positions, slot), positions)[0]

        @torch.inference_mode()
        def decode(self, slots, tokens, positions):
            tokens = torch.tensor(tokens, device=device)[:, None]
            slots, at = torch.tensor(slots, device=device), torch.tensor(positions, device=device)
            width_seen = torch.arange(max(positions) + 1, device=device)
            mask = (width_seen <= at[:, None])[:, None, None, :]
            return self.run(tokens, slots, at, mask)

    torch.manual_seed(1)
    model = Decoder().to(device, dtype).eval()
    free = list(range(min(4, args.slots)))
    for n in (args.prompt, args.prompt // 2):  # libraries load, and are not measured
        model.prefill(0, [1] * n)
    model.decode(free, [1] * len(free), [n] * len(free))
    return model


# ---- the loop ----

def arrivals(args):
    """When each request arrives, its prompt, and how many tokens it wants."""
    rng, at, out = random.Random(args.seed), 0.0, collections.deque()
    for _ in range(args.requests):
        prompt = [rng.randrange(args.words) for _ in range(rng.randint(args.prompt // 8, args.prompt))]
        out.append((at, prompt, rng.randint(max(1, args.tokens // 4), args.tokens)))
        at += rng.expovariate(args.rate)
    return out


def serve(model, coming, slots):
    begun = time.perf_counter()
    waiting, active, done, number = collections.deque(), [], [], 0
    free = list(range(slots))
    while coming or waiting or active:
        while coming and coming[0][0] <= time.perf_counter() - begun:
            _, prompt, wanted = coming.popleft()
            waiting.append(Request(f"r{len(waiting) + len(active) + len(done)}", prompt, wanted))
        if not waiting and not active:
            time.sleep(max(0, coming[0][0] - (time.perf_counter() - begun)))
            continue
        taken = [waiting.popleft() for _ in range(min(len(free), len(waiting)))]
        for request in taken:
            request.slot = free.pop()
            request.told.scheduled()
        with Iteration(number) as iteration:
            for request in taken:
                iteration.add(request.told.known, "prefill", tokens_in=len(request.prompt),
                              tokens_out=1, context=len(request.prompt))
            for request in active:
                iteration.add(request.told.known, "decode", tokens_in=1, tokens_out=1,
                              context=request.context)
            first = [model.prefill(request.slot, request.prompt) for request in taken]
            further = model.decode([r.slot for r in active], [r.tokens[-1] for r in active],
                                   [r.context - 1 for r in active]) if active else []
        number += 1
        for request, token in [*zip(active, further), *zip(taken, first)]:
            if request.got(token):
                request.told.finished("length")
                done.append(request)
                free.append(request.slot)
        active = [r for r in active + taken if len(r.tokens) < r.wanted]
    return done, number, time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--rate", type=float, default=30, help="requests a second")
    parser.add_argument("--slots", type=int, default=16, help="requests in a batch at most")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the longest prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of the longest answer")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cuda", "cpu"])
    parser.add_argument("--dry", action="store_true", help="without PyTorch")
    args = parser.parse_args()

    if args.dry:
        model = Dry()
    else:
        import torch
        model = decoder(torch, args, args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    done, iterations, seconds = serve(model, arrivals(args), args.slots)
    gaps = [b - a for r in done for a, b in zip(r.times, r.times[1:])]
    print(json.dumps({
        "requests": len(done), "iterations": iterations, "seconds": seconds,
        "tokens_in": sum(len(r.prompt) for r in done),
        "tokens_out": sum(len(r.tokens) for r in done),
        "ttft_ms": statistics.median(r.times[0] - r.arrived for r in done) * 1e3,
        "itl_ms": statistics.median(gaps) * 1e3 if gaps else None}))


if __name__ == "__main__":
    main()
