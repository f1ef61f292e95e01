#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reconfiguration.py TPX DATA: the effect on a cluster if resizes of jobs move only the bytes that must move, compared with
writing all state to shared storage and reading it again. DATA has traces/philly.csv; testdata/ has the rest. Prints a
table for RESULTS.md. Small changes of a trace change means by more than the measured effect, so Rubick's traces are
simulated in many samples of nine tenths of their jobs, and compared sample by sample."""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTDATA = ROOT / "testdata"
SAMPLES = 20
RATES = {"2 GB/s": 'nic = "25 GB/s"\ndisk_read = "5 GB/s"\ndisk_write = "2 GB/s"',
         "0.5 GB/s": 'nic = "25 GB/s"\ndisk_read = "0.5 GB/s"\ndisk_write = "0.5 GB/s"'}


def play(tpx, words):
    done = subprocess.run([tpx, "simulate", *map(str, words), "--json"], capture_output=True, text=True, check=True)
    return {policy["policy"]: policy for policy in json.loads(done.stdout)["policies"]}


def compare(tpx, trace, policy, seeds, options, storage, hardware, restart):
    pairs = []
    for seed in seeds:
        sample = ["--sample", 0.9, "--seed", seed] if len(seeds) > 1 else []
        results = [play(tpx, [*options, *sample, "--policy", policy, "--reconfig", cost, "--restart", restart, "--models",
                              TESTDATA / "simulate/models.toml", "--hardware", hardware])[policy]
                   for cost in ("plan", "checkpoint")]
        pairs.append(results)

    def mean(key, which):
        return statistics.fmean(pair[which][key] for pair in pairs)

    gains = [100 * (1 - pair[0]["mean_jct"] / pair[1]["mean_jct"]) for pair in pairs]
    error = f" ± {statistics.stdev(gains) / len(gains) ** 0.5:.1f}" if len(gains) > 1 else ""
    moving = [(mean("paused", i) - restart * (mean("changes", i) + mean("stops", i))) / 3600 for i in (0, 1)]
    print(f"| {trace} | {policy} | {restart} s, {storage} | {mean('changes', 0):,.0f} / {mean('changes', 1):,.0f} | "
          f"{mean('moved_bytes', 0) / 1e12:,.2f} / {mean('moved_bytes', 1) / 1e12:,.2f} | "
          f"{moving[0]:,.2f} / {moving[1]:,.2f} | {mean('lost_gpu_hours', 0):,.0f} / {mean('lost_gpu_hours', 1):,.0f} | "
          f"{mean('mean_jct', 0) / 3600:.3f} / {mean('mean_jct', 1) / 3600:.3f} | "
          f"{statistics.fmean(gains):.1f}{error} |", flush=True)


def main():
    tpx, data = sys.argv[1], Path(sys.argv[2])
    wanted = sys.argv[3:] or ["rubick", "philly"]
    philly = [data / "traces/philly.csv", "--cluster", "64x8", "--elastic", "0..1", "--skip-bad", "--quiet"]
    print("| trace | policy | restart, storage per host | changes | TB moved | job-hours stopped for transfers | "
          "idle GPU-hours | mean JCT, h | gain, % |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for storage, rates in RATES.items():
            hardware = Path(folder) / "hosts.toml"
            hardware.write_text(f'[[hosts]]\nname = "any"\ngpus = 8\n{rates}\n')
            for restart in (30, 5):
                if "rubick" in wanted:
                    for trace, policies in (("base", ("rubick", "sia", "wfs")), ("mt", ("rubick",))):
                        options = [TESTDATA / f"simulate/rubick-{trace}.csv", "--cluster", "8x8", "--speeds",
                                   TESTDATA / "profile/rubick"]
                        for policy in policies:
                            compare(tpx, f"Rubick {trace}", policy, range(1, SAMPLES + 1), options, storage, hardware,
                                    restart)
                if "philly" in wanted:
                    compare(tpx, "Philly", "wfs", [1], philly, storage, hardware, restart)


if __name__ == "__main__":
    main()
