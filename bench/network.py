#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""network.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--only changes|failures] [--hosts 4|8] [--write]

`tpx migrate` between the stores of emulated hosts, 4 with 1 Gbit/s and 8 with 200 Mbit/s. The bytes that the interfaces carry
are compared with the planned bytes. The seconds are compared with a bound, the longer of the times that the busiest NIC and the
disk need, and if all hosts send equally many bytes, with the time in which MPI exchanges as many bytes of memory (all_to_all.c).
On 4 hosts, two other methods are timed, both with tpx: with `reload`, one host stores the whole state and sends each host its part,
as shared storage behind one NIC does; with `central`, one host first gathers the state. Then follow the failure scenarios of the
Tenplex paper: of 16 devices on 4 hosts with two replicas of the model, 4, 8 and 12 are lost; after the last loss, no replica is
complete, and the state comes from a checkpoint on the common disk.
TCP carries 1448 bytes in a frame of 1514, so at most 95.6 % of a NIC's rate can be used. All hosts share one disk, which
writes their files at the rate of two `dd oflag=direct`. For changes, the old files are in the page cache; for failures, they are
not. Needs root, for network namespaces (tests/net/hosts.sh).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import llama
from reshard import two_writers
from results import put
from timing import cool, machine, remove, run, size, warm

ROOT = Path(__file__).resolve().parents[1]
CLUSTERS = [(4, 1000), (8, 200)]  # hosts, Mbit/s
OTHER_WAYS = 4  # number of hosts with which `reload` and `central` are timed
# Layout before, and for each loss the layout after and the remaining hosts. th0 and th1 have the first stage, th2 and th3 the second.
FAILURES = ("tp=4,pp=2,dp=2", [("tp=2,pp=2,dp=3", (0, 1, 2)), ("tp=4,pp=2", (0, 2)), ("tp=2,pp=2", (0,))])
CHANGES = [("fsdp={0}", "tp={0}"), ("tp={0}", "fsdp={0}"), ("fsdp={0}", "pp={0}")]
# The first two of OTHER_WAYS hosts have the state: a second replica is added, and a job moves to the other two hosts.
FROM_TWO = [("tp=2", "tp=2,dp=2", ""), ("tp=2", "tp=2", "th0,th1")]  # layouts before and after, and leaving hosts


def on_hosts(hosts, rate, script, folder):
    """The output of `script`, which calls mpirun-hosts."""
    words = ["sh", ROOT / "tests/net/hosts.sh", *[f"{rate}mbit"] * hosts, "--", "sh", "-euc", script]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"network.py: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def host_file(path, hosts, devices=1):
    path.write_text("".join(f"th{k} slots={devices}\n" for k in range(hosts)))


def make_stores(tpx, weights, layout, hosts, folder):
    """Makes one store per host with the files of its rank, as a job with this layout saves them; returns the whole checkpoint."""
    whole = folder / "whole"
    run([tpx, "reshard", weights, whole, "--to", layout, "--format", "dcp", "--quiet"])
    run([tpx, "verify", "--write", "--quiet", whole])  # shows that all stores have the same state
    for host in range(hosts):
        store = folder / f"stores/th{host}"
        store.mkdir(parents=True)
        for file in whole.iterdir():
            if not file.name.startswith("__") or file.name.startswith(f"__{host}_"):
                shutil.copy(file, store)
    return whole


def counted(hosts, rate, command, folder):
    """The JSON that a command on the hosts prints, plus the bytes that all interfaces sent as `carried`."""
    sent = f"mpirun-hosts -n {hosts} cat /sys/class/net/eth0/statistics/tx_bytes | awk '{{ sum += $1 }} END {{ printf \"%.0f\\n\", sum }}'"
    lines = on_hosts(hosts, rate, f"{sent}; {command} >'{folder}/out.json'; {sent}", folder).split()
    done = json.loads((folder / "out.json").read_text())
    done["carried"] = int(lines[1]) - int(lines[0])
    return done


def migrate(tpx, hosts, rate, folder, source, out, to, old, new, devices=1, leaving=""):
    """The result of counted() for a migration between plain folders."""
    for name, count in (("old", old), ("new", new)):
        host_file(folder / f"{name}.txt", count, devices)
    ranks = max(old, new)
    command = (f"mpirun-hosts -n {ranks} '{tpx}' migrate '{folder}/{source}/{{host}}' '{folder}/{out}/{{host}}' "
               f"--hosts '{folder}/{'old' if old > new else 'new'}.txt' --to {to} --format dcp --json --quiet"
               + (f" --leaving {leaving}" if leaving else ""))  # fmt: skip
    return counted(hosts, rate, command, folder)


def disk_rate(total, scratch):
    """Bytes per second that two writers reach together."""
    seconds = []
    for _ in range(3):
        seconds.append(run(two_writers(scratch / "zeros", total)))
        remove(scratch / "zeros")
    return total / statistics.median(seconds)


def other_ways(tpx, hosts, rate, folder, to):
    """Seconds of `reload` and `central`; empty texts unless there are OTHER_WAYS hosts."""
    if hosts != OTHER_WAYS:
        return "", ""
    gather = migrate(tpx, hosts, rate, folder, "stores", "gathered", "tp=1", hosts, 1)["seconds"]
    scatter = migrate(tpx, hosts, rate, folder, "gathered", "scattered", to, 1, hosts)["seconds"]
    for name in ("gathered", "scattered"):
        remove(folder / name)
    return f"{scatter:.1f} s", f"{gather + scatter:.1f} s"


def busiest_nic(done, rate):
    """Seconds that the NIC with most bytes needs."""
    return max(max(host["sends"], host["receives"]) for host in done["hosts"]) / (rate * 1e6 / 8 * 1448 / 1514)


def mpi_alone(hosts, rate, folder, done):
    """Seconds that MPI needs to exchange as many bytes; an empty text unless all hosts send and receive equally many."""
    planned = done["bytes_between_hosts"]
    if max(max(host["sends"], host["receives"]) for host in done["hosts"]) > 1.02 * planned / hosts:
        return ""
    run(["mpicc", "-O2", ROOT / "bench/all_to_all.c", "-o", folder / "all_to_all"])
    return f"{float(on_hosts(hosts, rate, f'mpirun-hosts -n {hosts} ./all_to_all {planned}', folder)):.2f} s"


def rows(tpx, weights, hosts, rate, repeats, scratch, disk):
    changes = [(before.format(hosts), after.format(hosts), hosts, "") for before, after in CHANGES]
    if hosts == OTHER_WAYS:
        changes += [(before, after, 2, leaving) for before, after, leaving in FROM_TWO]
    for layout, to, old, leaving in changes:
        with tempfile.TemporaryDirectory(dir=scratch) as name:
            folder = Path(name)
            whole = make_stores(tpx, weights, layout, old, folder)
            runs = []
            for _ in range(repeats):
                remove(folder / "new")
                os.sync()
                warm(folder / "stores")
                runs.append(migrate(tpx, hosts, rate, folder, "stores", "new", to, old, hosts, leaving=leaving))
            merged = folder / "merged"
            for store in sorted((folder / "new").iterdir()):
                shutil.copytree(store, merged, dirs_exist_ok=True)
            run([tpx, "verify", whole, merged])
            done = min(runs, key=lambda one: one["seconds"])
            nic = busiest_nic(done, rate)
            written = size(folder / "new") / disk
            seconds = statistics.median(one["seconds"] for one in runs)
            planned = done["bytes_between_hosts"]
            reload, central = other_ways(tpx, hosts, rate, folder, to) if old == hosts else ("", "")
            change = f"{layout} → {to}" + (f", from {old} hosts" if old < hosts else "") + (", to the others" if leaving else "")
            yield (f"| {hosts} × {rate} Mbit/s | {change} | {planned / 1e6:.1f} MB | {done['carried'] / planned:.3f} | "
                   f"{nic:.2f} s | {written:.2f} s | {seconds:.2f} s | **{max(nic, written) / seconds:.2f}** | "
                   f"{mpi_alone(hosts, rate, folder, done)} | {reload} | {central} |")  # fmt: skip


def failures(tpx, weights, rate, repeats, scratch, disk):
    """Yields a row for each loss of hosts, with managed stores."""
    before, losses = FAILURES
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        host_file(folder / "hosts.txt", 4, 4)
        whole = folder / "gathered/th0"
        whole.parent.mkdir()
        run([tpx, "reshard", weights, whole, "--to", before, "--format", "dcp", "--quiet"])
        run([tpx, "verify", "--write", "--quiet", whole])
        command = f"'{tpx}' migrate --store '{folder}/stores/{{host}}' --hosts '{folder}/hosts.txt' --json --quiet"
        for to, left in losses:
            lost = [f"th{k}" for k in range(4) if k not in left]
            hosts = ",".join(f"th{k}" for k in left)
            survives = len(left) > 1
            options = f"--lost {','.join(lost)} --to {to}" + ("" if survives else f" --fallback '{whole}' --iteration 1")
            runs, reloads, gathers = [], [], []
            for _ in range(repeats):
                imported = f"mpirun-hosts -n 4 {command} --import '{whole}' --iteration 1 >'{folder}/out.json'"
                on_hosts(4, rate, imported, folder)
                if survives:
                    gathered = f"--lost {','.join(lost)} --leaving {','.join(f'th{k}' for k in left[1:])} --to tp=1"
                    gathers.append(counted(4, rate, f"mpirun-hosts --host {hosts} -n {len(left)} {command} {gathered}", folder)["seconds"])
                    remove(folder / "stores")
                    on_hosts(4, rate, imported, folder)
                os.sync()
                cool(folder / "stores")
                runs.append(counted(4, rate, f"mpirun-hosts --host {hosts} -n {len(left)} {command} {options}", folder))
                reloads.append(migrate(tpx, 4, rate, folder, "gathered", "scattered", to, 1, len(left), devices=4)["seconds"])
                for used in ("scattered", "stores"):
                    remove(folder / used)
            seconds, reload = (statistics.median(each) for each in ([one["seconds"] for one in runs], reloads))
            nic, written, planned = busiest_nic(runs[0], rate), runs[0]["bytes_written"] / disk, runs[0]["bytes_between_hosts"]
            carried = f"{runs[0]['carried'] / planned:.3f}" if planned else ""
            central = f"{statistics.median(gathers) + reload:.2f} s" if survives else ""
            yield (f"| {4 * len(lost)} of 16 | {before} → {to} | {'survivors' if survives else 'checkpoint'} | {planned / 1e6:.1f} MB | "
                   f"{carried} | {nic:.2f} s | {written:.2f} s | {seconds:.2f} s | **{max(nic, written) / seconds:.2f}** | {reload:.2f} s | "
                   f"{central} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=ROOT / "build/release/cmd/tpx", type=Path)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--layers", type=int, default=8, help="of the model, a multiple of 8; each is 0.4 GiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["changes", "failures"], help="measure only these")
    parser.add_argument("--hosts", type=int, choices=[hosts for hosts, _ in CLUSTERS], help="measure changes only on this number of hosts")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    tpx = str(options.tpx.resolve())
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        total = llama.write(scratch / "weights", options.layers)
        lines = [f"`bench/network.py` on {machine(scratch)}: {total / 2**30:.2f} GiB in stores of hosts, medians of {options.repeats} runs", "",
                 "| hosts | change | planned between hosts | carried / planned | busiest NIC, at least | disk, at least | tpx migrate | bound / tpx | MPI alone | reload | central |",
                 "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
        disk = disk_rate(total, scratch)
        clusters = [cluster for cluster in CLUSTERS if options.hosts in (None, cluster[0])]
        for hosts, rate in clusters if options.only != "failures" else []:
            for row in rows(tpx, scratch / "weights", hosts, rate, options.repeats, scratch, disk):
                lines.append(row)
                print(row, flush=True)
        if options.only != "changes":
            lines += ["", f"Losses of hosts, of 4 with 4 devices and {CLUSTERS[0][1]} Mbit/s each:", "",
                      "| devices lost | layouts | state from | planned between hosts | carried / planned | busiest NIC, at least | disk, at least | tpx migrate | bound / tpx | reload | central |",
                      "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
            for row in failures(tpx, scratch / "weights", CLUSTERS[0][1], options.repeats, scratch, disk):
                lines.append(row)
                print(row, flush=True)
        lines[0] += f"; two `dd` write {disk / 1e9:.2f} GB/s; load {os.getloadavg()[0]:.0f} at the end"
    print("\n".join(lines))
    if options.write:
        put("migrate on emulated hosts", "\n".join(lines))


if __name__ == "__main__":
    main()
