# SPDX-License-Identifier: Apache-2.0
"""simulate.py TPX: the report of a simulation in a real browser: no script fails, nothing is asked of a network, it fits
every width, and each number that is shown is the one that --json prints."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import measures
from browser import Page, find_browser
from texts import TEXTS

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata/simulate"
TRACES = {
    "elastic": ["virtualflow20.json", "--cluster", "2x4", "--speeds", "virtualflow20-elastic.csv", "--policy",
                "priority,wfs", "--delays", "start=82,single=0,grow=78,shrink=2.3,release=10.5"],
    "rubick": ["rubick-base.csv", "--cluster", "8x8", "--speeds", "../profile/rubick", "--policy", "rubick,srtf",
               "--reconfig", "78"],
}
KEYS = ("mean_jct", "median_jct", "p99_jct", "mean_queueing", "makespan", "held", "worked", "trained", "changes", "stops")


def text_of(value, unit):
    return f"{100 * value:.2f} %" if unit == "share" else TEXTS[unit](value)


def check(page, path, printed, name):
    page.faults.clear()
    page.open(path)
    page.settle()
    page.settle()
    if page.evaluate("document.documentElement.dataset.ready") != "true":
        return [f"{name}: the page is not drawn", *page.faults]
    faults = list(page.faults)
    shown = {pointer: (value, unit, text) for pointer, value, unit, text in page.evaluate(measures.NUMBERS)}
    for index, policy in enumerate(printed["policies"]):
        for key in KEYS:
            value, unit, text = shown.get(f"/policies/{index}/{key}", (None, None, None))
            if value is None or float(value) != policy[key] or text != text_of(policy[key], unit):
                faults.append(f"{name}: {policy['policy']}: {key} is {policy[key]}, the page shows {text}")
    for width in (1280, 390):
        page.resize(width, 900)
        page.settle()
        if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            faults.append(f"{name}: it is too wide for {width} pixels")
    curves = page.evaluate("document.querySelectorAll('#times .curve[points]').length")
    if curves != len(printed["policies"]):
        faults.append(f"{name}: {curves} curves for {len(printed['policies'])} policies")
    return faults


def main():
    if not find_browser():
        print("skipped: no Chromium here")
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        for name, words in TRACES.items():
            path = Path(folder) / f"{name}.html"
            done = subprocess.run([sys.argv[1], "simulate", *words, "--report", path, "--json"], cwd=DATA,
                                  capture_output=True, text=True, timeout=120, check=True)
            faults += check(page, path, json.loads(done.stdout), name)
    print("\n".join(faults[:40]))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
