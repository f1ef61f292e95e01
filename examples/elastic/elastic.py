#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""elastic.py MODE FOLDER [--tpx TPX] [--python PYTHON] [--steps N] [--hand-over]

Trains a small model twice, N steps for each phase: in a job that shrinks, grows, loses a host and moves between its phases, and in
a job that never changes. MODE is ddp, sharded or pipelined, see train.py. Each job has six emulated hosts, each with one device and
a store, which is a folder on this machine; no host reads the folder of another host. `tpx migrate` imports the state that the ranks
saved, changes its layout, and prints where the new ranks run. Writes the losses of both jobs, and a plot, losses.svg, to FOLDER.

With --hand-over, tpx migrate --hold leaves the state in the memory of each host, and the ranks take it from there instead of the
stores.

Exit status 0 if the losses agree: bit for bit with MODE ddp, up to rounding otherwise. PYTHON must have PyTorch."""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOSTS, NODES = 6, 8  # virtual nodes

# The event before each phase, and the layout of the phase.
PHASES = {
    "ddp": [("starts", "dp=4"), ("shrinks", "dp=2"), ("grows", "dp=3"), ("loses a host", "dp=4"), ("moves", "dp=2")],
    "sharded": [("starts", "fsdp=4"), ("changes to TP", "tp=2,fsdp=2"), ("shrinks", "fsdp=2"), ("loses a host", "tp=2,fsdp=2"), ("moves", "fsdp=2")],
    "pipelined": [("starts", "fsdp=4"), ("changes to PP", "pp=2,fsdp=2"), ("changes to TP", "tp=2,pp=2"), ("loses a host", "pp=2"), ("moves", "fsdp=2")],
}  # fmt: skip


class Job:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.steps, self.lost, self.ranks = 0, [], []
        (folder / "stores").mkdir(parents=True)
        (folder / "data.toml").write_text(f"samples = 100000\nglobal_batch = 32\nvirtual_nodes = {NODES}\nseed = 3\nconsumed = 0\n")
        self.run(options.python, HERE / "train.py", "init", "init", NODES)

    def run(self, *command):
        done = subprocess.run([*map(str, command)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"elastic.py: exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
        return done.stdout

    def migrate(self, *words):
        """Runs tpx migrate with a process on each host, and remembers where the ranks of the next phase run."""
        lost = ["--lost", ",".join(self.lost)] if self.lost else []
        made = self.run("mpirun", "-n", HOSTS - len(self.lost), self.options.tpx, "migrate", "--emulate", "--hosts", f"{HOSTS}x1",
                        "--store", "stores/{host}", *lost, *words, "--json", "--quiet")  # fmt: skip
        self.ranks = json.loads(made).get("ranks", self.ranks)  # an export has none

    def hosts(self):
        return {rank["host"] for rank in self.ranks}

    def start(self, layout):
        self.migrate("--import", "init", "--iteration", 0, "--data", "data.toml", "--to", layout, "--replicas", 2)

    def hold(self):
        """Holds the current state in the memory of the hosts, under one name for each host, and releases what was held before."""
        for host in self.hosts():
            subprocess.run([self.options.tpx, "hold", "--release", self.held_on(host)], capture_output=True)
        self.migrate("--hold", 300, "--hold-name", self.held_on("{host}"))

    def held_on(self, host):
        return f"elastic-{os.getpid()}-{host}"

    def take_over(self, *words):
        """Imports the state that the ranks saved into the stores, each file on at least two hosts."""
        self.migrate("--import", "saved/{host}", "--iteration", self.steps, "--replicas", 2, *words)

    def change(self, event, layout):
        if event == "loses a host":
            self.take_over("--to", self.ranks[0]["env"]["TPX_LAYOUT"])
            host = max(self.hosts())
            for place in ("stores", "saved"):
                shutil.rmtree(self.folder / place / host)
            self.lost.append(host)
            self.migrate("--to", layout, "--replicas", 2)
        elif event == "moves":
            leaving = sorted(self.hosts())[:2]
            self.take_over("--to", layout, "--leaving", ",".join(leaving))
            self.lost += leaving
        else:
            self.take_over("--to", layout)

    def train(self, steps):
        """Starts a process for each rank, as a launcher would on the rank's host."""
        shutil.rmtree(self.folder / "saved", ignore_errors=True)
        if self.options.hand_over:
            self.hold()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        processes = []
        for rank in self.ranks:
            command = [self.options.python, HERE / "train.py", self.options.mode, steps, f"saved/{rank['host']}", "losses"]
            environment = os.environ | place | rank["env"] | {"PYTHONWARNINGS": "ignore"}
            if self.options.hand_over:
                environment["TPX_HELD"] = self.held_on(rank["host"])
            processes.append(subprocess.Popen([*map(str, command)], cwd=self.folder, env=environment))
        if any([process.wait() for process in processes]):
            sys.exit("elastic.py: a rank failed")
        self.steps += steps

    def check_state(self):
        """Checks that the stores contain the state that the ranks saved."""
        for name in ("whole", "exported"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for part in sorted((self.folder / "saved").iterdir()):
            shutil.copytree(part, self.folder / "whole", dirs_exist_ok=True)
        self.migrate("--export", "exported")
        self.run(self.options.tpx, "verify", "whole", "exported")

    def losses(self):
        rows = [line.split() for line in (self.folder / "losses").read_text().splitlines()]
        if [int(step) for step, _ in rows] != list(range(len(rows))):
            sys.exit("elastic.py: a step is missing or was made twice")
        return [float.fromhex(loss) for _, loss in rows]


def picture(path, losses, reference, phases, steps):
    """Writes an SVG of both curves, with the name of each phase above its first step."""
    width, height = 760, 300
    most = max(losses + reference)
    points = lambda curve: " ".join(f"{40 + k * (width - 60) / len(curve):.1f},{height - 30 - loss / most * (height - 70):.1f}" for k, loss in enumerate(curve))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']  # fmt: skip
    for number, (event, layout) in enumerate(phases):
        x = 40 + number * steps * (width - 60) / len(losses)
        lines.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{height - 30}" stroke="#ccc"/>'
                     f'<text x="{x + 4:.1f}" y="16">{event}</text><text x="{x + 4:.1f}" y="30">{layout}</text>')  # fmt: skip
    lines.append(f'<polyline points="{points(reference)}" fill="none" stroke="#bbb" stroke-width="6"/>')
    lines.append(f'<polyline points="{points(losses)}" fill="none" stroke="#06c" stroke-width="1.5"/>')
    lines.append(f'<text x="40" y="{height - 10}">loss of {len(losses)} steps: blue, the elastic job; gray, the fixed job</text></svg>')
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=PHASES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tpx", default=shutil.which("tpx") or "tpx", type=lambda path: os.path.abspath(path))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hand-over", action="store_true")
    options = parser.parse_args()
    folder, phases = options.folder.resolve(), PHASES[options.mode]

    steady = Job(options, folder / "steady")
    steady.start(phases[0][1])
    steady.train(options.steps * len(phases))

    job = Job(options, folder / "elastic")
    for number, (event, layout) in enumerate(phases):
        if number == 0:
            job.start(layout)
        else:
            job.change(event, layout)
            if event != "loses a host":  # the saved files of a lost host are gone
                job.check_state()
        print(f"step {job.steps:4}: the job {event}: {layout} on {', '.join(sorted(job.hosts()))}", flush=True)
        job.train(options.steps)

    losses, reference = job.losses(), steady.losses()
    picture(folder / "losses.svg", losses, reference, phases, options.steps)
    farthest = max(abs(a / b - 1) for a, b in zip(losses, reference))
    same = losses == reference if options.mode == "ddp" else farthest < 1e-4
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps; relative difference at most {farthest:.1e}")
    sys.exit(0 if same else "elastic.py: the losses differ from those of the job that never changed")


if __name__ == "__main__":
    main()
