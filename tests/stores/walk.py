# SPDX-License-Identifier: Apache-2.0
"""walk.py TPX TESTDATA [--walks N] [--steps N] [--seed N]: random sequences of layouts, sets of hosts, losses, damage and
kills. After each change, the stores together equal the original checkpoint. A change exits with 3 and changes nothing
if and only if, by the model in this file, some file has no intact copy on any host."""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from stores import Stores, ranks_of, wait_for

CHECKPOINTS = {
    "llama-rope/dcp-fsdp2": ["fsdp=1", "fsdp=2", "fsdp=3", "fsdp=4", "tp=2", "tp=2,fsdp=2", "dp=2"],
    "llama-small/megatron-tp2pp2": ["tp=1", "tp=2", "tp=4", "pp=2", "pp=4", "tp=2,pp=2", "tp=2,dp=2"],
    "deepspeed/zero3-subgroups-dp2": ["dp=1", "dp=2", "dp=3", "dp=4"],
}
HOSTS = 4


class Walk:
    def __init__(self, tpx, testdata, seed):
        self.random = random.Random(seed)
        name = self.random.choice(sorted(CHECKPOINTS))
        self.checkpoint, self.layouts = str(testdata / name), CHECKPOINTS[name]
        shutil.rmtree("s", ignore_errors=True)
        self.stores = Stores(tpx, HOSTS)
        self.alive = set(range(HOSTS))
        self.outdated = set()  # hosts that returned with an old state
        self.copies = {}       # by file: hosts that have it intact
        self.replicas = 1      # number of copies of each file after a change
        self.damaged = {}      # by state: pairs of host and file
        self.log = [f"seed {seed}: {name}"]
        self.counts = {"changes": 0, "refusals": 0, "kills": 0, "losses": 0}
        self.start()

    def check(self, condition, what):
        if not condition:
            sys.exit("\n".join([*self.log, f"walk.py: {what}"]))

    def start(self):
        arguments = ["--import", self.checkpoint, "--replicas", str(self.random.randint(1, min(2, len(self.alive))))]
        if "rope" in self.checkpoint:  # this checkpoint does not record it
            arguments += ["--iteration", "7"]
        if len(self.alive) < 2:  # two devices are too few for the ranks of some checkpoints
            arguments += ["--to", self.layouts[0]]
        self.run(*arguments)

    def run(self, *arguments):
        """Runs a change that must succeed, with --rejoin for outdated hosts."""
        if "--replicas" in arguments:
            self.replicas = int(arguments[arguments.index("--replicas") + 1])
        arguments = [*arguments, *self.rejoining()]
        status, said = self.stores.migrate(*arguments, alive=self.alive)
        self.log.append(f"{' '.join(arguments)} on {sorted(self.alive)}: {status}")
        self.check(status == 0, f"status {status}\n{said}")
        self.replicas = min(self.replicas, len(self.alive) - ("--leaving" in arguments))
        self.succeeded()

    def succeeded(self):
        self.counts["changes"] += 1
        hosts = self.members()
        self.outdated = {h for h in self.alive - hosts if self.stores.current(h) is not None}
        self.check(len(self.stores.names(hosts)) == 1, f"hosts have different states: {self.stores.names(hosts)}")
        self.check(self.stores.is_state_of(self.checkpoint, hosts), "the state has changed")
        self.copies = {}
        for host in hosts:
            for file in self.stores.files(host):
                self.copies.setdefault(file, set()).add(host)
        rare = {file for file, hosts in self.copies.items() if len(hosts) < self.replicas}
        self.check(not rare, f"fewer than {self.replicas} hosts have {rare}")

    def members(self):
        """Hosts whose current state is the newest."""
        names = {h: folder.name for h in self.alive if (folder := self.stores.current(h))}
        newest = max(names.values(), key=lambda name: int(name.rsplit("-", 1)[1]))
        return {h for h, name in names.items() if name == newest}

    def rejoining(self):
        return ["--rejoin", ",".join(f"host{h}" for h in sorted(self.outdated))] if self.outdated else []

    def survives(self):
        return all(self.copies.values())

    # Events between two changes.

    def lose(self):
        if len(self.alive) < 2:
            return
        host = self.random.choice(sorted(self.alive))
        self.alive.remove(host)
        self.outdated.discard(host)
        self.counts["losses"] += 1
        self.log.append(f"host{host} is lost")
        for hosts in self.copies.values():
            hosts.discard(host)
        if self.random.random() < 0.5:
            shutil.rmtree(self.stores.store(host), ignore_errors=True)

    def come_back(self):
        gone = sorted(set(range(HOSTS)) - self.alive)
        if not gone or not self.members():
            return
        host = self.random.choice(gone)
        self.alive.add(host)
        newest = self.stores.names(self.members() - {host})
        if self.stores.current(host) is None:
            self.log.append(f"host{host} is there with an empty store")
        elif self.stores.names([host]) == newest:
            self.log.append(f"host{host} is back with the current state")
            for file, digest in self.stores.files(host).items():
                if self.is_intact(host, file, digest):
                    self.copies.setdefault(file, set()).add(host)
        else:
            self.log.append(f"host{host} is back with an old state")
            self.outdated.add(host)
            before = self.everything()
            status, said = self.stores.migrate("--to", self.layouts[0], alive=self.alive)
            self.check(status == 1 and " outdated: " in said, f"an outdated host was not refused: {status}\n{said}")
            self.check(before == self.everything(), "a refused change has changed something")

    def is_intact(self, host, file, digest):
        return (host, file) not in self.damaged.get(self.stores.names([host]).pop(), set())

    def damage(self):
        hosts = sorted(self.members() & self.alive)
        host = self.random.choice(hosts)
        files = sorted(self.stores.files(host))
        if not files:
            return
        file = self.random.choice(files)
        path = self.stores.current(host) / file
        if path.stat().st_size == 0:
            return
        self.log.append(f"{file} of host{host} is damaged")
        content = bytearray(path.read_bytes())
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        path.write_bytes(content)
        self.copies[file].discard(host)
        self.damaged.setdefault(self.stores.names([host]).pop(), set()).add((host, file))

    # A change, which may be killed first.

    def change(self):
        arguments = ["--to", self.random.choice([*self.layouts, "auto"])]
        staying = sorted(self.alive)
        if len(self.alive) > 2 and self.random.random() < 0.2:
            leaving = self.random.choice(staying)
            arguments += ["--leaving", f"host{leaving}"]
            staying.remove(leaving)
            if self.random.random() < 0.5:
                arguments += ["--within", "10min"]
        if len(staying) > 1 and self.random.random() < 0.6:
            arguments += ["--replicas", "2"]
        if self.random.random() < 0.3:
            arguments += ["--prune"]
        ranks = 1
        if arguments[1] != "auto":
            for part in arguments[1].split(","):
                ranks *= int(part.partition("=")[2])
        if ranks > 2 * len(staying):
            return
        if not self.survives():
            return self.refused(arguments)
        if self.random.random() < 0.4:
            self.kill(arguments)
        self.run(*arguments)

    def refused(self, arguments):
        before = self.everything()
        arguments = [*arguments, *self.rejoining()]
        status, said = self.stores.migrate(*arguments, alive=self.alive)
        self.log.append(f"{' '.join(arguments)} on {sorted(self.alive)}: {status}")
        refused = status == 3 and ("no host has an intact copy" in said or "no remaining host has a current state" in said)
        self.check(refused, f"not refused: status {status}\n{said}")
        self.check(before == self.everything(), "a refused change has changed something")
        self.counts["refusals"] += 1
        self.start()

    def everything(self):
        """All files and links with their times. Folders are omitted, because a run may create those of an empty
        store."""
        return sorted((str(path), path.lstat().st_mtime_ns) for path in pathlib.Path("s").rglob("*")
                      if path.is_symlink() or path.is_file())

    def kill(self, arguments):
        """Begins the change, and kills one of its processes after a random time."""
        command = self.stores.command(*arguments, *self.rejoining(), alive=self.alive)
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0.1, 1.2))
        if ranks := ranks_of(job):
            try:
                os.kill(self.random.choice(ranks), signal.SIGKILL)
                self.counts["kills"] += 1
                self.log.append("a process was killed")
            except ProcessLookupError:
                pass
        wait_for(job)

    def walk(self, steps):
        for _ in range(steps):
            self.random.choice([self.change, self.change, self.change, self.lose, self.come_back, self.damage])()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tpx")
    parser.add_argument("testdata", type=pathlib.Path)
    parser.add_argument("--walks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tpx, testdata = os.path.abspath(given.tpx), given.testdata.resolve()
    total = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for k in range(given.walks):
            walk = Walk(tpx, testdata, given.seed + k)
            walk.walk(given.steps)
            for what, count in walk.counts.items():
                total[what] = total.get(what, 0) + count
        os.chdir("/")
    print(f"{given.walks} walks from seed {given.seed}:", ", ".join(f"{n} {what}" for what, n in total.items()))


if __name__ == "__main__":
    main()
