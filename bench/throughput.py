#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well the throughput model predicts steps that it has not seen: what tests/unit/formats/profile/accuracy_test.cpp
measures on testdata/profile/rubick, as a table. Deterministic.

    bench/throughput.py [--tests build/release/tests/unit_formats] [--write]
"""
import argparse
import re
import subprocess
from pathlib import Path

import results

ROOT = Path(__file__).resolve().parent.parent
SPLITS = ["nine runs, one draw", "nine runs, ten draws", "nine runs of other placements"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", default=ROOT / "build/release/tests/unit_formats")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    said = subprocess.run([arguments.tests, "--source-file=*accuracy_test.cpp"], cwd=ROOT, text=True, stdout=subprocess.PIPE).stdout
    row = r"MESSAGE: (\w+): one host ([\d.e-]+) % of (\d+), across hosts ([\d.]+) % of (\d+), worst ([\d.]+)"
    found = re.findall(row, said)
    models = list(dict.fromkeys(name for name, *_ in found))
    lines = ["`bench/throughput.py`: mean error of predicted step times on measured A800 rows that were not fitted, in percent.",
             "The first of nine runs is drawn, the others are those that `--suggest` would choose; no measured time outside the",
             "nine is looked at. Priors are the same for all models; they were set with these tables in sight.", "",
             "| model | split | one host | rows | across hosts | rows | worst |", "|---|---|---|---|---|---|---|"]
    for index, (name, inside, inside_rows, across, across_rows, worst) in enumerate(found):
        one = f"{float(inside):.1f}" if int(inside_rows) else "–"
        lines.append(f"| {name} | {SPLITS[index // len(models)]} | {one} | {inside_rows} | {float(across):.1f} | {across_rows} | {float(worst):.0f} |")
    regret = re.search(r"MESSAGE: (\d+) placements, the best plan chosen on (\d+), mean regret ([\d.]+)", said)
    lines += ["", f"Of {regret[1]} choices of a plan for a placement {regret[2]} were the best measured one; the chosen plans took "
              f"{100 * float(regret[3]):.2f} % longer than the best on average."]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        results.put("throughput model", text)


if __name__ == "__main__":
    main()
