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
SPLITS = ["nine runs as suggested", "nine runs, the first drawn, 50 times", "nine runs of other placements"]


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
             "The nine runs are those that `--suggest 9` names, or a drawn one and those that it names then; no measured time",
             "outside the nine is looked at. Priors are the same for all models; they were set with these tables in sight.", "",
             "| model | split | one host | rows | across hosts | rows | worst |", "|---|---|---|---|---|---|---|"]
    for index, (name, inside, inside_rows, across, across_rows, worst) in enumerate(found):
        one = f"{float(inside):.1f}" if int(inside_rows) else "–"
        lines.append(f"| {name} | {SPLITS[index // len(models)]} | {one} | {inside_rows} | {float(across):.1f} | {across_rows} | {float(worst):.0f} |")
    regret = re.search(r"MESSAGE: (\d+) placements, the best plan chosen on (\d+), mean regret ([\d.]+)", said)
    lines += ["", f"Of {regret[1]} choices of a plan for a placement {regret[2]} were the best measured one; the chosen plans took "
              f"{100 * float(regret[3]):.2f} % longer than the best on average."]
    sixteen = re.search(r"MESSAGE: 16 samples: ([\d.]+) % of (\d+), worst ([\d.]+)", said)
    lines += ["", f"Nine runs of LLaMA-7B with 8 samples in one batch predict {sixteen[2]} runs with 16 samples in micro-batches of one with a",
              f"mean error of {float(sixteen[1]):.1f} %, at worst {float(sixteen[3]):.0f} %. No value was set by that table; that the constant is counted in each pass",
              "was learnt from it. The best plan is chosen on one host of 4 GPUs, on 4 of 4 and on 4 of 8, and with 8 samples on the",
              "latter two."]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        results.put("throughput model", text)


if __name__ == "__main__":
    main()
