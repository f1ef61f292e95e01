# SPDX-License-Identifier: Apache-2.0
"""kills.py TPX SHIM TESTDATA [--kills N] [--seed N]: kills a process of tpx migrate --store at a file system call, also
during the recovery from an earlier kill. At any moment, each host has a complete current state, either the old or the new
one; the same command then ends with the new state on all hosts."""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from stores import Stores, wait_for, without_mpi

HOSTS = 3
CHANGE = ["--to", "fsdp=3", "--replicas", "2"]


class Kills:
    def __init__(self, tpx, shim, checkpoint, seed):
        self.tpx, self.shim, self.checkpoint = tpx, shim, checkpoint
        self.random = random.Random(seed)
        self.stores = Stores(tpx, HOSTS)
        self.hosts = list(range(HOSTS))
        self.must_succeed("--import", checkpoint, "--iteration", "7", "--to", "fsdp=2", "--replicas", "2")
        self.old = [self.stores.files(h) for h in self.hosts]
        shutil.copytree("s", "base", symlinks=True)
        self.calls = [self.trace(rank) for rank in self.hosts]
        self.new = [self.stores.files(h) for h in self.hosts]
        if self.old == self.new:
            sys.exit("kills.py: the change changes nothing")

    def must_succeed(self, *arguments):
        status, said = self.stores.migrate(*arguments, alive=self.hosts)
        if status != 0:
            sys.exit(f"kills.py: {arguments}: status {status}\n{said}")

    def environment(self, rank, **settings):
        return {**os.environ, "LD_PRELOAD": self.shim, "TPX_FAULT_FOLDER": str(pathlib.Path("s").resolve()),
                "TPX_FAULT_RANK": str(rank), **settings}

    def run(self, environment, change):
        """Runs a change with the shim in its processes, but not in mpirun; returns the exit status."""
        command = self.stores.command(*change, alive=self.hosts)
        command[1:1] = [word for name in environment if name not in os.environ for word in ("-x", f"{name}={environment[name]}")]
        null = subprocess.DEVNULL
        return wait_for(subprocess.Popen(command, stdin=null, stdout=null, stderr=null))

    def trace(self, rank):
        """The file system calls of a rank, and the first of them after all files are complete."""
        self.restore()
        trace = pathlib.Path(f"trace.{rank}")
        trace.unlink(missing_ok=True)
        if self.run(self.environment(rank, TPX_FAULT_TRACE=str(pathlib.Path("trace").resolve())), CHANGE) != 0:
            sys.exit("kills.py: the change fails under the shim")
        return trace.read_text().splitlines()

    def restore(self):
        shutil.rmtree("s", ignore_errors=True)
        shutil.copytree("base", "s", symlinks=True)

    def moment(self):
        """A random rank and call number; 60 % of the calls come after all files are complete."""
        rank = self.random.choice(self.hosts)
        calls = self.calls[rank]
        late = next(k for k, call in enumerate(calls) if "manifest.json" in call and call.startswith("link ")
                    or "rename" in call and "manifest.json" in call or "tpx.unfinished" in call and call.startswith("unlink"))
        begin, end = (late, len(calls)) if self.random.random() < 0.6 else (0, late)
        return rank, self.random.randrange(begin, end) + 1

    def manifest_moment(self):
        """The call that gives rank 0's manifest its final name: a kill leaves a file under a temporary name."""
        return 0, next(k for k, call in enumerate(self.calls[0], 1)
                       if call.startswith("rename") and "/manifest.json.partial" in call)

    def kill(self, moment=None):
        rank, number = moment or self.moment()
        self.run(self.environment(rank, TPX_FAULT_AT=f"any {number} *", TPX_FAULT_KIND="KILL"), CHANGE)
        what = f"rank {rank} killed at call {number} ({self.calls[rank][number - 1]})"
        states = []
        for host in self.hosts:
            files = self.stores.files(host)
            if files not in (self.old[host], self.new[host]):
                sys.exit(f"kills.py: {what}: the current state of host{host} is neither the old nor the new one")
            states.append("new" if files == self.new[host] else "old")
        return what, states

    def case(self, moment=None):
        self.restore()
        what, states = self.kill(moment)
        if self.random.random() < 0.4:
            again, states = self.kill()
            what += ", then " + again
        if len(set(states)) > 1:
            ready = subprocess.run([self.tpx, "inspect", "--store", "s/{host}", "--hosts", f"{HOSTS}x2", "--emulate"],
                                   capture_output=True, env=without_mpi()).returncode
            if ready != 3:
                sys.exit(f"kills.py: {what}: inspect calls a mixture ready (status {ready})")
        status, said = self.stores.migrate(*CHANGE, alive=self.hosts)
        if status != 0:
            sys.exit(f"kills.py: {what}: the next run ends with {status}\n{said}")
        if [self.stores.files(h) for h in self.hosts] != self.new or len(self.stores.names(self.hosts)) != 1:
            sys.exit(f"kills.py: {what}: the next run has not ended the change")
        if not self.stores.is_state_of(self.checkpoint, self.hosts):
            sys.exit(f"kills.py: {what}: the state has changed")
        return "".join(sorted(set(states)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tpx")
    parser.add_argument("shim")
    parser.add_argument("testdata", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tpx, shim = os.path.abspath(given.tpx), os.path.abspath(given.shim)
    checkpoint = str(given.testdata.resolve() / "llama-rope/dcp-fsdp2")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        kills = Kills(tpx, shim, checkpoint, given.seed)
        counts = {}
        for k in range(given.kills):
            state = kills.case(kills.manifest_moment() if k == 0 else None)
            counts[state] = counts.get(state, 0) + 1
        os.chdir("/")
    print(f"{given.kills} kills: hosts had the old state {counts.get('old', 0)} times, the new one {counts.get('new', 0)} "
          f"times, both {counts.get('newold', 0)} times")


if __name__ == "__main__":
    main()
