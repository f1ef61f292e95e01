#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hardware.py [--tpx TPX] [--seconds S] [--repeats N] [--write]

Runs tpx profile hardware several times on four emulated hosts, three with 1 Gbit/s and one with 200 Mbit/s, and checks
whether the runs agree within their spreads. Needs root, for network namespaces (tests/net/hosts.sh).
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from results import put
from timing import machine

ROOT = Path(__file__).resolve().parents[1]
RATES = {"th0": 1000, "th1": 1000, "th2": 200, "th3": 1000}  # Mbit/s


def measure(tpx, seconds, repeats, folder):
    """The JSON of each run; later runs are compared with the first."""
    runs = []
    command = f'mpirun-hosts -n 4 "{tpx}" profile hardware --quiet --seconds {seconds}'
    for run in range(repeats):
        compare = f"--compare {folder}/0.toml" if run else ""
        words = ["sh", ROOT / "tests/net/hosts.sh", *(f"{rate}mbit" for rate in RATES.values()), "--", "sh", "-c",
                 f"{command} -o {folder}/{run}.toml {compare} --json >{folder}/{run}.json 2>/dev/null"]
        done = subprocess.run(words, cwd=folder, check=False)
        if done.returncode not in (0, 3):
            raise SystemExit(f"hosts.sh ends with {done.returncode}")
        runs.append(json.loads(Path(folder, f"{run}.json").read_text()))
    return runs


def table(runs):
    lines = ["| host | NIC, Mbit/s | found, Mbit/s | error | latency, µs | memory, GB/s | disk read / write, GB/s | while all hosts use disks |",
             "|---|---|---|---|---|---|---|---|"]
    for index, (name, rate) in enumerate(RATES.items()):
        hosts = [run["hosts"][index] for run in runs]
        nics = [host["nic"]["median"] * 8 / 1e6 for host in hosts]
        off = max(nics, key=lambda nic: abs(nic - rate)) / rate - 1
        latency = statistics.median(link["latency"] for run in runs for link in run["links"] if link["from"] == name)

        def median(key, scale=1e9):
            return statistics.median(host[key]["median"] for host in hosts) / scale

        lines.append(f"| {name} | {rate} | {', '.join(f'{nic:.0f}' for nic in nics)} | {100 * off:+.1f} % | {1e6 * latency:.0f} | "
                     f"{median('memory'):.1f} | {median('disk_read'):.2f} / {median('disk_write'):.2f} | "
                     f"{median('disk_read_together'):.2f} / {median('disk_write_together'):.2f} |")
    return "\n".join(lines)


def figures(run):
    """Yields (name, (median, spread)) for every rate of a run."""
    for host in run["hosts"]:
        for key, value in host.items():
            if isinstance(value, dict) and value.get("median", 0) > 0 and not key.endswith(("direct", "buffered")):
                yield f"{host['name']} {key}", (value["median"], value["spread"])
    for link in run["links"]:
        yield f"{link['from']} to {link['to']}", (link["rate"], link["spread"])


def verdict(runs):
    """A sentence: how many figures of the later runs differ from those of the first by more than 10 % and both spreads."""
    first, count, apart = dict(figures(runs[0])), 0, []
    for run in runs[1:]:
        for name, (median, spread) in figures(run):
            other, other_spread = first[name]
            count += 1
            if abs(median - other) > max(0.1, spread + other_spread) * max(median, other):
                apart.append(name)
    slower = sum(len(run["degraded"]) for run in runs[1:])
    return f"Of {count} figures of the later runs, {len(apart)} differ from those of the first by more than 10 % and both spreads" + \
        (f" ({', '.join(apart)})" if apart else "") + f"; `--compare` flags {slower}."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=ROOT / "build/release/cmd/tpx", type=Path)
    parser.add_argument("--seconds", default=20, type=int)
    parser.add_argument("--repeats", default=3, type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = measure(options.tpx.resolve(), options.seconds, options.repeats, folder)
    load = os.getloadavg()[0]
    text = f"""`bench/hardware.py` on {machine(ROOT)}, load {load:.0f} at the end: `tpx profile hardware --seconds {options.seconds}` on four emulated
hosts, {options.repeats} times; NICs of each run, all other figures are medians. Of a frame of 1514 bytes, TCP carries 1448: 4.4 % less.
All four hosts share two cores and one disk.

{table(runs)}

{verdict(runs)}
"""
    print(text)
    if options.write:
        put("profile hardware", text)


if __name__ == "__main__":
    main()
