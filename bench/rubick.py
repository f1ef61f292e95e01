#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rubick.py TPX: simulates Rubick's traces under Rubick, its variants and other policies. First with the paper's rules (78 s for
each start and change, decisions at events), as means of many samples of nine tenths of the jobs, because single runs differ by
more than policies do: with measured step times, and with the step times of all plans as predicted by models that are fitted to
the measured ones. Then with the rules of the published simulator (rounds of 60 s, 260 s for each start and change), and with its
handling of guarantees. Prints tables for RESULTS.md: mean JCT / P99 / makespan in hours."""
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTDATA = Path(__file__).resolve().parents[1] / "testdata"
POLICIES = ["rubick", "rubick-e", "rubick-r", "rubick-n", "synergy", "antman", "sia", "fifo-backfill"]
SAMPLES = 20
KEYS = ("mean_jct", "p99_jct", "makespan")


def play(tpx, trace, words, speeds=TESTDATA / "profile/rubick"):
    done = subprocess.run([tpx, "simulate", trace, "--cluster", "8x8", "--speeds", speeds, *words, "--json"],
                          capture_output=True, text=True, check=True)
    return {policy["policy"]: [policy[key] / 3600 for key in KEYS] for policy in json.loads(done.stdout)["policies"]}


def rewritten(folder, name, guaranteed):
    """Writes the trace `name` with the guaranteed jobs that guaranteed(row, number) selects; returns its path."""
    with open(TESTDATA / f"simulate/rubick-{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    path = Path(folder) / f"{name}-{guaranteed.__name__}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        for number, row in enumerate(rows):
            writer.writerow({**row, "is_sla": int(guaranteed(row, number))})
    return path


def nobody(row, number):
    return number == 0  # one job must be guaranteed: if the column is false for all jobs, all are


def small(row, number):
    return not (row["application"].startswith("llama") and int(row["num_gpus"]) >= 32)


def small_tenant(row, number):
    return small(row, number) and row["is_sla"] == "1"


def fitted(tpx, folder):
    """Fits a throughput model to all measurements of each model; returns their folder."""
    models = Path(folder) / "fitted"
    models.mkdir()
    for model in (TESTDATA / "profile/rubick").glob("*.toml"):
        table = model.with_suffix(".csv")
        if not table.exists():
            continue
        columns = "columns-llama7.toml" if table.stem == "llama7" else "columns.toml"
        subprocess.run([tpx, "profile", "fit", table, "--model", model, "--columns",
                        table.with_name(columns), "-o", models / f"{table.stem}.toml", "--quiet"],
                       stdout=subprocess.DEVNULL, check=True)
    return models


def paper_rules(tpx, folder, speeds):
    traces = {name: TESTDATA / f"simulate/rubick-{name}.csv" for name in ("base", "bp", "mt")}
    traces["base, nobody guaranteed"] = rewritten(folder, "base", nobody)
    print("| policy |" + "".join(f" {name} |" for name in traces))
    print("|---|" + "---|" * len(traces))
    columns = []
    for trace in traces.values():
        samples = [play(tpx, trace, ["--policy", ",".join(POLICIES), "--reconfig", "78", "--sample", "0.9", "--seed",
                                     str(seed)], speeds) for seed in range(1, SAMPLES + 1)]
        columns.append({policy: (" / ".join(f"{statistics.fmean(s[policy][i] for s in samples):.2f}" for i in range(3)),
                                 statistics.stdev(s[policy][0] - s["rubick"][0] for s in samples) / SAMPLES ** 0.5)
                        for policy in POLICIES})
    for policy in POLICIES:
        print(f"| {policy} |" + "".join(f" {column[policy][0]} (± {column[policy][1]:.2f}) |" for column in columns))


ARTIFACT = ["--policy", "rubick", "--reconfig", "260", "--quantum", "60"]


def apart(tpx, folder, name):
    """Mean JCT, P99 and makespan in hours of all jobs if LLaMA jobs of 32 GPUs and more have one cluster, and all other jobs
    another one: in the published simulator, stopped jobs continue to train without using the GPUs of others."""
    with open(TESTDATA / f"simulate/rubick-{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    jobs = []
    for which in (True, False):
        path, out = Path(folder) / f"{name}-{which}.csv", Path(folder) / f"{name}-{which}-jobs.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(row for row in rows if small(row, 0) == which)
        play(tpx, path, [*ARTIFACT, "--jobs", out])
        with out.open(newline="") as file:
            jobs += [row for row in csv.DictReader(file) if row["policy"] == "rubick"]
    jcts = sorted(float(row["jct"]) / 3600 for row in jobs)
    last = max(float(row["finish"]) for row in jobs) / 3600
    return statistics.fmean(jcts), jcts[int(0.99 * len(jcts))], last


def artifact_rules(tpx, folder):
    cases = [("base", "as in the paper", TESTDATA / "simulate/rubick-base.csv", "1.01 / 8.10 / 16.30"),
             ("base", "nobody is guaranteed", rewritten(folder, "base", nobody), ""),
             ("base", "LLaMA jobs of 32 GPUs and more may be stopped, the others not", rewritten(folder, "base", small), ""),
             ("mt", "as in the trace", TESTDATA / "simulate/rubick-mt.csv", "1.12 / 7.93 / 16.88"),
             ("mt", "LLaMA jobs of 32 GPUs and more may be stopped, too", rewritten(folder, "mt", small_tenant), ""),
             ("mt", "only LLaMA jobs of 32 GPUs and more may be stopped", rewritten(folder, "mt", small), "")]
    print("| trace | guarantees | rubick | fifo-backfill | published simulator |\n|---|---|---|---|---|")
    for name, what, trace, published in cases:
        result = play(tpx, trace, ARTIFACT)
        texts = [" / ".join(f"{value:.2f}" for value in result[policy]) for policy in ("rubick", "fifo-backfill")]
        print(f"| {name} | {what} | {texts[0]} | {texts[1]} | {published} |")
    for name in ("base", "mt"):
        text = " / ".join(f"{value:.2f}" for value in apart(tpx, folder, name))
        print(f"| {name} | LLaMA jobs of 32 GPUs and more have their own cluster | {text} |  |  |")


def main():
    with tempfile.TemporaryDirectory() as folder:
        paper_rules(sys.argv[1], folder, TESTDATA / "profile/rubick")
        print()
        paper_rules(sys.argv[1], folder, fitted(sys.argv[1], folder))
        print()
        artifact_rules(sys.argv[1], folder)


if __name__ == "__main__":
    main()
