# SPDX-License-Identifier: Apache-2.0
"""simulate.py TPX: checks the reports of a simulation and of a sweep in a real browser: no script fails, there are no
network requests, they fit every width, and each number shown is the one that --json prints."""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import measures
from browser import Page, find_browser
from texts import TEXTS, column_text

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata/simulate"
TRACES = {
    "elastic": ["virtualflow20.json", "--cluster", "2x4", "--speeds", "virtualflow20-elastic.csv", "--policy",
                "priority,wfs", "--delays", "start=82,single=0,grow=78,shrink=2.3,release=10.5"],
    "rubick": ["rubick-base.csv", "--cluster", "8x8", "--speeds", "../profile/rubick", "--policy", "rubick,srtf",
               "--reconfig", "78"],
}
SWEEP = ["--generate", "jobs=300,durations=2h,gpus=1/2/4", "--cluster", "2x8", "--policy", "wfs,las", "--sweep", "load=0.5,1,2"]
KEYS = ("mean_jct", "median_jct", "p99_jct", "mean_queueing", "makespan", "held", "worked", "trained", "changes", "stops")


def text_of(value, unit):
    return f"{100 * value:.2f} %" if unit == "share" else TEXTS[unit](value)


def open_page(page, path, name):
    faults = page.draw(path, name)
    for width in (1280, 390):
        page.resize(width, 900)
        page.settle()
        if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            faults.append(f"{name}: it is too wide for {width} pixels")
    return faults


def compare(page, policies, at, keys, name, rows=None):
    """The page shows each of `keys` of the policies below the pointer `at` as it was printed; `rows` are all of the table."""
    shown = {pointer: (value, unit, text) for pointer, value, unit, text in page.evaluate(measures.NUMBERS)}
    faults = []
    for index, policy in enumerate(policies):
        for key in keys:
            value, unit, text = shown.get(f"{at}/{index}/{key}", (None, None, None))
            wanted = column_text(policy[key], [row[key] for row in rows or policies]) if unit == "column" else unit and text_of(policy[key], unit)
            if value is None or float(value) != policy[key] or text != wanted:
                faults.append(f"{name}: {policy['policy']}: {key} is {policy[key]}, the page shows {text}")
    return faults


def count_curves(page, where, wanted, name):
    curves = page.evaluate(f"document.querySelectorAll('{where} .curve[points]').length")
    return [] if curves == wanted else [f"{name}: {curves} curves in place of {wanted}"]


def check_axes(page, where, name, titles):
    """All labels of axes are plain numbers, beside the unit and the titles."""
    texts = page.evaluate(f"[...document.querySelectorAll('{where} svg text')].map((text) => text.textContent)")
    wrong = {text for text in texts if not re.fullmatch(r"[\d,.]+|%|s|min|h|d", text) and not text.startswith(titles)}
    return [f"{name}: {where} has the label '{text}'" for text in wrong] + ([] if texts else [f"{name}: {where} has no labels"])


def check(page, path, printed, name):
    faults = open_page(page, path, name)
    faults += compare(page, printed["policies"], "/policies", KEYS, name)
    faults += check_axes(page, "#usage", name, ("time",))
    return faults + count_curves(page, "#times", len(printed["policies"]), name)


def check_sweep(page, path, printed):
    faults = open_page(page, path, "sweep")
    keys = ("mean_jct", "median_jct", "p99_jct", "mean_queueing", "makespan", "trained", "changes", "stops")
    rows = [policy for point in printed["points"] for policy in point["policies"]]
    for index, point in enumerate(printed["points"]):
        faults += compare(page, point["policies"], f"/points/{index}/policies", keys, "sweep", rows)
    faults += check_axes(page, "#curves", "sweep", ("load",))
    if "--sweep load=0.5,1,2" not in page.evaluate("document.getElementById('options').textContent"):
        faults.append("sweep: the options are not shown")
    return faults + count_curves(page, "#curves", 4 * len(printed["points"][0]["policies"]), "sweep")


def main():
    if not find_browser():
        print("skipped: Chromium is missing")
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        for name, words in {**TRACES, "sweep": SWEEP}.items():
            path = Path(folder) / f"{name}.html"
            done = subprocess.run([sys.argv[1], "simulate", *words, "--report", path, "--json"], cwd=DATA,
                                  capture_output=True, text=True, check=True)
            printed = json.loads(done.stdout)
            faults += check_sweep(page, path, printed) if name == "sweep" else check(page, path, printed, name)
    print("\n".join(faults[:40]))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
