#!/usr/bin/env python3
"""torchrun.py -- starts processes with the environment that PyTorch's torchrun gives its workers, and ends them as it does.

usage: torchrun.py [--nproc-per-node N] [--rdzv-id ID | --standalone] [--max-restarts N] COMMAND...

PyTorch itself is not needed. As with `torchrun --no-python`, COMMAND is a program. When a worker fails the others get
SIGTERM, and all begin anew as often as --max-restarts says.
"""
import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid


def worker_environment(args, rank, port, restart, errors):
    n = str(args.nproc_per_node)
    env = {**os.environ, "LOCAL_RANK": str(rank), "RANK": str(rank), "GROUP_RANK": "0", "ROLE_RANK": str(rank), "ROLE_NAME": "default",
           "LOCAL_WORLD_SIZE": n, "WORLD_SIZE": n, "GROUP_WORLD_SIZE": "1", "ROLE_WORLD_SIZE": n, "MASTER_ADDR": "localhost",
           "MASTER_PORT": str(port), "TORCHELASTIC_RESTART_COUNT": str(restart), "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts),
           "TORCHELASTIC_RUN_ID": args.rdzv_id, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
           "TORCHELASTIC_ERROR_FILE": os.path.join(errors, f"{restart}_{rank}_error.json")}
    env.setdefault("OMP_NUM_THREADS", "1")
    return env


def attempt(args, port, restart, errors):
    """Exit status of the first that fails, 0 if none does."""
    workers = [subprocess.Popen(args.command, env=worker_environment(args, rank, port, restart, errors), start_new_session=True)
               for rank in range(args.nproc_per_node)]
    while True:
        states = [w.poll() for w in workers]
        failed = next((s for s in states if s), 0)
        if failed or None not in states:
            break
        time.sleep(0.05)
    for w in workers:
        if w.poll() is None:
            w.send_signal(signal.SIGTERM)
    for w in workers:
        try:
            w.wait(30)
        except subprocess.TimeoutExpired:
            w.kill()
            w.wait()
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc-per-node", type=int, default=1)
    parser.add_argument("--rdzv-id", default="none")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--max-restarts", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.standalone:
        args.rdzv_id = str(uuid.uuid4())
    with socket.socket() as s, tempfile.TemporaryDirectory() as errors:
        s.bind(("127.0.0.1", 0))
        for restart in range(args.max_restarts + 1):
            failed = attempt(args, s.getsockname()[1], restart, errors)
            if not failed:
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
