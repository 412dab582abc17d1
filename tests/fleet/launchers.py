"""launchers.py -- ranks that Slurm, Open MPI and torchrun start: job, rank and size are known by themselves.

Slurm's and Open MPI's own programs start them on loopback (Debian's slurmctld, slurmd, slurm-client and
openmpi-bin: script/bootstrap --fleet); torchrun.py gives processes what torchrun gives them.
"""
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import clickhouse
import rig
from fleet_job import Job
from rig import Failure, Skip, expect, need_servers, run

RANKS = 3
CONFIG = """ClusterName=opmeter
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={daemon}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={ranks} RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """A controller and a node, both here; they end with the block."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        control, daemon = clickhouse.free_ports(2)
        (folder / "slurm.conf").write_text(CONFIG.format(host=socket.gethostname().split(".")[0], control=control, daemon=daemon,
                                                         user=getpass.getuser(), folder=folder, ranks=RANKS))
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self, program):
        with open(self.folder / f"{program}.log", "wb") as log:
            self.processes.append(subprocess.Popen(
                [shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"), "-D"], env=self.env, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def __enter__(self):
        try:
            self.start("slurmctld")
            self.start("slurmd")
            end = time.monotonic() + 60
            while "idle" not in subprocess.run(["sinfo", "-h", "-o", "%t"], env=self.env, capture_output=True, text=True).stdout:
                if time.monotonic() > end:
                    logs = [(self.folder / f"{p}.log").read_text()[-300:] for p in ("slurmctld", "slurmd")]
                    raise Failure(f"Slurm's node is not there after 60 s: {logs}")
                time.sleep(0.3)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check(launch, env, folder, number, job):
    """`launch` starts a command once for each rank; the shell calls the rank's number `number`, the job `job`."""
    url = need_servers(folder).url("launched_" + folder.name)
    opmeter, where = rig.opmeter, folder / "shared"
    Job(ranks=RANKS, steps=4, layers=2, unlabelled=True).write(where)

    def ranks(*command, database):
        done = subprocess.run([*launch, *map(str, command)], cwd=where, env=env, capture_output=True, text=True, timeout=240)
        if done.returncode:
            raise Failure(f"{launch[0]}: {done.stderr[-600:]}")
        rows = json.loads(run("query", database, "SELECT job, rank, world FROM rank_file ORDER BY job, rank", "--json").stdout)
        job = rows[-1]["job"] if rows else ""
        expect(f"ranks of {command}", [r for r in rows if r["job"] == job],
               [{"job": job, "rank": r, "world": RANKS} for r in range(RANKS)])
        if not job:
            raise Failure("the job has no name")

    for database in ("runs.db", url):
        ranks(opmeter, "record", "-q", "-o", "rank%r.opm", "--add-to", database, "--", "sh", "-c",
              f"exec {opmeter} run -q zoo:mlp -n 2 -o out${number}",
              database=where / database if database == "runs.db" else database)
    expect("recordings", sorted(p.name for p in where.glob("*.opm")), [f"rank{r}.opm" for r in range(RANKS)])
    # A process for a machine, which is no rank, adds all that lie there.
    done = subprocess.run([*(a if a != str(RANKS) else "1" for a in launch), "sh", "-c", f"exec {opmeter} add -q rank*.opm --to together.db --job ${job}"],
                          cwd=where, env=env, capture_output=True, text=True, timeout=240)
    expect(f"exit status: {done.stderr[-400:]}", done.returncode, 0)
    rows = json.loads(run("query", where / "together.db", "SELECT job <> '' AS named, rank, world FROM rank_file ORDER BY rank", "--json").stdout)
    expect("ranks that one process added", rows, [{"named": 1, "rank": r, "world": RANKS} for r in range(RANKS)])
    # Traces that are there already, whose names say nothing: each process adds its own.
    for rank in range(RANKS):
        (where / f"rank{rank:05d}.json").rename(where / f"trace{rank}.json")
    for database in ("others.db", url):
        ranks("sh", "-c", f"exec {opmeter} add -q trace${number}.json --to '{database}'",
              database=where / database if database == "others.db" else database)


def under_mpi(folder):
    """`mpirun opmeter record --add-to` and `mpirun opmeter add`, to a file and to ClickHouse."""
    if not shutil.which("mpirun"):
        raise Skip("mpirun is not installed (Debian's openmpi-bin)")
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    check(["mpirun", "--oversubscribe", "--mca", "btl_tcp_if_include", "lo", "-n", str(RANKS)], env, folder, "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE")


def under_slurm(folder):
    """`srun opmeter record --add-to` and `srun opmeter add`, to a file and to ClickHouse."""
    if not all(shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin") for p in ("slurmctld", "slurmd", "srun", "sinfo")):
        raise Skip("Slurm is not installed (Debian's slurmctld, slurmd and slurm-client)")
    with Slurm(folder / "slurm") as slurm:
        check(["srun", "-n", str(RANKS)], slurm.env, folder, "SLURM_PROCID", "SLURM_JOB_ID")


TORCHRUN = [sys.executable, str(Path(__file__).with_name("torchrun.py")), "--nproc-per-node", str(RANKS)]


def under_torchrun(folder):
    """A launcher that gives its workers what torchrun gives them (PyTorch itself is no package of Debian's)."""
    check([*TORCHRUN, "--standalone"], os.environ, folder, "RANK", "TORCHELASTIC_RUN_ID")
    where = folder / "named"
    where.mkdir()
    record = [str(rig.opmeter), "record", "-q", "-o", "rank%r.opm", "--add-to", "runs.db"]
    work = f"exec {rig.opmeter} run -q zoo:mlp -n 2 -o out$RANK"
    jobs = "SELECT job, rank, world FROM rank_file ORDER BY job, rank"

    def launch(*command, status=0):
        done = subprocess.run([*TORCHRUN, *map(str, command)], cwd=where, capture_output=True, text=True, timeout=240)
        expect(f"exit status of {command}: {done.stderr[-400:]}", done.returncode, status)
        return done

    launch("--rdzv-id", "pretrain-7", *record, "--", "sh", "-c", work)
    expect("ranks", json.loads(run("query", where / "runs.db", jobs, "--json").stdout),
           [{"job": "pretrain-7", "rank": r, "world": RANKS} for r in range(RANKS)])
    # Without an ID torchrun calls every job `none`, which is no name.
    if "--job" not in launch(*record, "--", "sh", "-c", work, status=1).stderr:
        raise Failure("a job without a name is not refused")
    # A worker fails, the others are ended: what they recorded until then is added.
    launch("--rdzv-id", "failing", *record, "--force", "--", "sh", "-c", f"{work.replace('exec ', '')}; test $RANK = 1 && exit 7; exec sleep 60",
           status=1)
    rows = json.loads(run("query", where / "runs.db", jobs.replace("ORDER", "WHERE job = 'failing' ORDER"), "--json").stdout)
    expect("ranks of a job that failed", [r["rank"] for r in rows], list(range(RANKS)))


TESTS = (under_mpi, under_slurm, under_torchrun)
