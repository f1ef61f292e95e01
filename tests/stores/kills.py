# SPDX-License-Identifier: Apache-2.0
"""kills.py TPX SHIM TESTDATA [--kills N] [--seed N] [--kind KIND]: kills processes of tpx migrate --store, also during
the recovery from an earlier kill: one rank, all processes of a host, mpirun, or all processes at once, at a file system
call of a rank or at a random time. A host may then be absent during the recovery, and return later with its old state.

At any moment, each host has a complete current state, either an old or the new one; tpx inspect never calls a mixture ready,
and the launch script never belongs to a state that some host lacks. The same command ends with the new state on all
present hosts, and a host that returns is refused until it is listed in --rejoin."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import processes
from stores import MANIFEST, Stores, wait_for, without_mpi

HOSTS = 3
SCRIPT = "launch.sh"
OLD, NEW = "fsdp=2", "fsdp=3"
CHANGE = ["--to", NEW, "--replicas", "2", "--launch", SCRIPT]


class Kills:
    def __init__(self, tpx, shim, checkpoint, seed):
        self.tpx, self.shim, self.checkpoint = tpx, shim, checkpoint
        self.random = random.Random(seed)
        self.stores = Stores(tpx, HOSTS)
        self.hosts = list(range(HOSTS))
        self.log, self.counts, self.contents = [], {}, {}
        self.must_succeed("--import", checkpoint, "--iteration", "7", "--to", OLD, "--replicas", "2", "--launch", SCRIPT)
        self.learn()
        shutil.copytree("s", "base", symlinks=True)
        shutil.copy(SCRIPT, "base.sh")
        self.seconds = statistics.median(self.measure() for _ in range(3))
        self.calls = [self.trace(rank) for rank in self.hosts]
        self.learn()

    def fail(self, what):
        sys.exit("kills.py: " + "\n".join([*self.log, what]))

    def learn(self):
        """Records the files of the current states as those of their layout."""
        for host in self.hosts:
            layout = self.manifest(host)["layout"]
            self.contents.setdefault(layout, {}).update(self.stores.files(host))

    def manifest(self, host):
        return json.loads((self.stores.current(host) / MANIFEST).read_text())

    def must_succeed(self, *arguments):
        status, said = self.stores.migrate(*arguments, alive=self.hosts)
        if status != 0:
            self.fail(f"{' '.join(arguments)} on {self.hosts}: status {status}\n{said}")
        return said

    def begin(self, **settings):
        """Begins the change; the settings are for the shim in its ranks, but not in mpirun."""
        command = self.stores.command(*CHANGE, alive=self.hosts)
        if settings:
            settings = {"LD_PRELOAD": self.shim, "TPX_FAULT_FOLDER": str(pathlib.Path("s").resolve()), **settings}
        command[1:1] = [word for name, value in settings.items() for word in ("-x", f"{name}={value}")]
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=null, stderr=null)

    def measure(self):
        """The seconds that the change takes."""
        self.restore()
        start = time.monotonic()
        self.must_succeed(*CHANGE)
        return time.monotonic() - start

    def trace(self, rank):
        """The file system calls of a rank."""
        self.restore()
        trace = pathlib.Path(f"trace.{rank}")
        trace.unlink(missing_ok=True)
        if wait_for(self.begin(TPX_FAULT_RANK=rank, TPX_FAULT_TRACE=pathlib.Path("trace").resolve())) != 0:
            self.fail("the change fails under the shim")
        return trace.read_text().splitlines()

    def restore(self):
        self.hosts = list(range(HOSTS))
        for folder in ("s", "away"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree("base", "s", symlinks=True)
        shutil.copy("base.sh", SCRIPT)

    # When and what to kill.

    def call(self):
        """A random rank, and the number of one of its calls; 60 % of them come after all files are complete."""
        rank = self.random.randrange(len(self.hosts))
        calls = self.calls[rank]
        late = next(k for k, call in enumerate(calls) if "manifest.json" in call and call.startswith("link ")
                    or "rename" in call and "manifest.json" in call or "tpx.unfinished" in call and call.startswith("unlink"))
        begin, end = (late, len(calls)) if self.random.random() < 0.6 else (0, late)
        return rank, self.random.randrange(begin, end) + 1

    def manifest_call(self):
        """The call that gives rank 0's manifest its final name: a kill leaves a file under a temporary name."""
        return 0, next(k for k, call in enumerate(self.calls[0], 1)
                       if call.startswith("rename") and "/manifest.json.partial" in call)

    def kill(self, kind, call=None):
        """Runs the change and kills processes according to `kind`; returns the number of the host of a killed
        process."""
        rank, number = call or self.call()
        if kind == "rank" or self.random.random() < 0.6:
            fault = "KILL" if kind == "rank" else "STOP"
            job = self.begin(TPX_FAULT_RANK=rank, TPX_FAULT_AT=f"any {number} *", TPX_FAULT_KIND=fault)
            when = f"at call {number} of rank {rank} ({self.calls[rank][number - 1]})"
            if kind != "rank":
                processes.wait_until_stopped(job)
                rank = self.random.randrange(len(self.hosts))
        else:
            job, delay = self.begin(), self.random.uniform(0, 1.1 * self.seconds)
            when = f"after {delay:.2f} s"
            time.sleep(delay)
        tree = processes.tree_of(job.pid)
        killed = kind == "rank" or processes.kill(job, kind, rank)
        status = wait_for(job)
        processes.wait_for_end(tree)
        killed = killed and (kind != "rank" or status != 0)  # the call may never come in a recovery
        host = self.hosts[rank]
        self.log.append(f"{kind} killed {when}{f', host{host}' if kind == 'host' else ''}{'' if killed else ': had ended'}")
        if killed:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return host

    # What must be true at any moment.

    def layout_of(self, host):
        """The layout of the current state of a host, which must be complete."""
        if self.stores.current(host) is None:
            self.fail(f"host{host} has no current state")
        manifest = self.manifest(host)
        number = [each["name"] for each in manifest["hosts"]].index(f"host{host}")
        own = {file["path"]: self.contents[manifest["layout"]].get(file["path"])
               for file in manifest["files"] if number in file["hosts"]}
        if self.stores.files(host) != own:
            self.fail(f"the current state of host{host} is not complete")
        return manifest["layout"]

    def check(self):
        layouts = {self.layout_of(host) for host in self.hosts}
        names = {f"host{host}": self.stores.current(host).name for host in self.hosts}
        seen = subprocess.run([self.tpx, "inspect", "--store", "s/{host}", "--hosts", f"{HOSTS}x2", "--emulate", "--json"],
                              capture_output=True, env=without_mpi(), text=True)
        document = json.loads(seen.stdout)
        if document["ready"] != (seen.returncode == 0) or seen.returncode not in (0, 3):
            self.fail(f"inspect ends with {seen.returncode}: {seen.stdout}")
        state = document["current"]
        if document["ready"] and any(names.get(host["name"]) != state["name"] for host in state["hosts"]):
            self.fail(f"inspect calls a mixture ready: {names}")
        self.check_script()
        return layouts

    def check_script(self):
        """The launch script is complete, and if it is that of the new state, all of its hosts have this state."""
        script = pathlib.Path(SCRIPT).read_text()
        layout = re.search("^# Starts the ranks of ([^ ]*) where", script, re.M)
        if not layout or not script.endswith("esac\n"):
            self.fail("the launch script is not complete")
        states = re.findall(r"^host(\d) .* (/.*/s/host\d/current)$", script, re.M)
        if not states:
            self.fail("the launch script names no states")
        if layout[1] == NEW and {self.layout_of(int(host)) for host, _ in states if int(host) in self.hosts} != {NEW}:
            self.fail("the launch script is that of a state that some host lacks")

    # A case.

    def recover(self):
        """The same command ends with the new state on all present hosts."""
        self.must_succeed(*CHANGE)
        if self.check() != {NEW} or len(self.stores.names(self.hosts)) != 1:
            self.fail(f"the next run has not ended the change: {self.stores.names(self.hosts)}")
        if not self.stores.is_state_of(self.checkpoint, self.hosts):
            self.fail("the state has changed")
        if self.tpx_inspect_is_not_ready():
            self.fail("inspect does not call the new state ready")

    def tpx_inspect_is_not_ready(self):
        alive = pathlib.Path("alive")
        alive.write_text("".join(f"host{host} slots=2\n" for host in self.hosts))
        return subprocess.run([self.tpx, "inspect", "--store", "s/{host}", "--hosts", "alive", "--emulate"],
                              capture_output=True, env=without_mpi()).returncode

    def leave(self, host):
        self.log.append(f"host{host} is unreachable")
        pathlib.Path("away").mkdir(exist_ok=True)
        shutil.move(f"s/host{host}", f"away/host{host}")
        self.hosts.remove(host)
        self.counts["away"] = self.counts.get("away", 0) + 1

    def come_back(self, host):
        self.log.append(f"host{host} is back")
        shutil.move(f"away/host{host}", f"s/host{host}")
        before = {each: self.stores.current(each) for each in self.hosts}
        self.hosts = sorted([*self.hosts, host])
        status, said = self.stores.migrate(*CHANGE, alive=self.hosts)
        if status != 1 or f"host 'host{host}' is outdated" not in said:
            self.fail(f"the host that is back is not refused: status {status}\n{said}")
        if any(self.stores.current(each) != state for each, state in before.items()):
            self.fail("a change that was refused has changed something")
        self.check()
        self.must_succeed(*CHANGE, "--rejoin", f"host{host}")
        self.recover()

    def case(self, kind, call=None):
        self.restore()
        self.log = []
        host = self.kill(kind, call)
        layouts = self.check()
        away = kind == "host" and self.random.random() < 0.5
        if away:
            self.leave(host)
            self.check()
        if self.random.random() < 0.4:
            self.kill(self.random.choice(processes.KINDS))
            self.check()
        self.recover()
        if away:
            self.come_back(host)
        return "+".join(sorted(layouts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tpx")
    parser.add_argument("shim")
    parser.add_argument("testdata", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=processes.KINDS, action="append")
    given = parser.parse_args()
    tpx, shim = os.path.abspath(given.tpx), os.path.abspath(given.shim)
    checkpoint = str(given.testdata.resolve() / "llama-rope/dcp-fsdp2")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        kills = Kills(tpx, shim, checkpoint, given.seed)
        found = {}
        for k in range(given.kills):
            kinds = given.kind or processes.KINDS
            kind, call = (kinds[k % len(kinds)], None) if k else ("rank", kills.manifest_call())
            layouts = kills.case(kind, call)
            found[layouts] = found.get(layouts, 0) + 1
        os.chdir("/")
    print(f"{given.kills} cases from seed {given.seed}:", ", ".join(f"{n} {what}" for what, n in sorted(kills.counts.items())),
          "| hosts had", ", ".join(f"{layouts} {n} times" for layouts, n in sorted(found.items())))


if __name__ == "__main__":
    main()
