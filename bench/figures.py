# SPDX-License-Identifier: Apache-2.0
"""Functions that compute the rows of papers.py."""
import csv
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIMULATE, PROFILE = ROOT / "testdata/simulate", ROOT / "testdata/profile"
ROWS = []


def row(figure, quantity, paper, published, ours, note=""):
    ROWS.append((figure, quantity, paper, published, ours, note))


def run(tpx, *words, **options):
    done = subprocess.run([tpx, *map(str, words), "--json", "--quiet"], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def simulate(tpx, trace, cluster, *words):
    said = run(tpx, "simulate", trace, "--cluster", cluster, *words)
    return {policy["policy"]: policy for policy in said["policies"]}


def jobs_of(path, policy):
    with open(path, newline="") as file:
        return {one["job"]: one for one in csv.DictReader(file) if one["policy"] == policy}


def percent(before, after):
    return f"{100 * (after / before - 1):.1f} %"


def table():
    head = ["Figure", "Quantity", "Paper", "Authors' logs, simulator or measurements", "tpx", "Note"]
    rows = [(figure, quantity, paper or "–", *others) for figure, quantity, paper, *others in ROWS]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
