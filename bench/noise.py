#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What limits the throughput and memory models: how much measured rows differ that the models cannot tell apart, how well a fit without a
model of the hardware predicts each row from the others, and how many plans that ran need more memory, by the estimate's main parts, than
plans that did not. Reads testdata/profile only. Takes some minutes.

    bench/noise.py [--write]
"""
import argparse
import csv
import itertools
import math
import statistics
from collections import defaultdict
from pathlib import Path

import results

DATA = Path(__file__).resolve().parent.parent / "testdata/profile"


def rows(name):
    with open(DATA / name, newline="") as file:
        return list(csv.DictReader(file))


def spread(timed):
    """Rows with a twin, the deviation of the logarithm of one row in %, and the mean error in % of the median of each group."""
    groups = defaultdict(list)
    for key, seconds in timed:
        groups[key].append(math.log(seconds))
    twins = [group for group in groups.values() if len(group) > 1]
    squares = sum(statistics.pvariance(group) * len(group) for group in twins)
    errors = [abs(math.expm1(statistics.median(group) - one)) for group in twins for one in group]
    return len(errors), 100 * math.sqrt(squares / sum(len(group) - 1 for group in twins)), 100 * statistics.mean(errors)


def recomputation(name):
    """Uneven placements with and without full recomputation: their number, how often recomputation was faster, and the deviation of one
    row in % if the ratio of the two were the same everywhere."""
    took = {(row["exec_plan"], row["placement"]): float(row["iter_time"]) for row in rows(f"rubick/{name}.csv")}
    ratios = [math.log(took["gc", place] / seconds) for (plan, place), seconds in took.items() if plan == "ga" and ("gc", place) in took
              and len(place) > 1 and any(int(gpus) % 2 for gpus in place) and seconds > 0 < took["gc", place]]
    return len(ratios), sum(ratio < 0 for ratio in ratios), 100 * statistics.stdev(ratios) / math.sqrt(2)


def features(row):
    """What a smooth fit knows of a row of a table of Rubick's: degrees, placement and kind of plan."""
    hosts = sorted((int(gpus) for gpus in row["placement"]), reverse=True)
    plan = row["exec_plan"]
    degrees = [int(degree) for degree in plan] if plan.isdigit() else [1, 1, sum(hosts)]
    counts = [*degrees, len(hosts), hosts[0], hosts[-1], sum((gpus + 1) // 2 for gpus in hosts)]
    is_uneven = len(hosts) > 1 and any(gpus % 2 for gpus in hosts)
    return [*map(math.log2, counts), is_uneven, hosts[0] != hosts[-1], *(plan == word for word in ("gc", "zero-dp", "zero-offload"))]


def inverse(matrix):
    size = len(matrix)
    lines = [row[:] + [float(i == j) for j in range(size)] for i, row in enumerate(matrix)]
    for i in range(size):
        lines[i] = [value / lines[i][i] for value in lines[i]]
        for j in range(size):
            if j != i:
                factor = lines[j][i]
                lines[j] = [one - factor * other for one, other in zip(lines[j], lines[i])]
    return [line[size:] for line in lines]


def leave_one_out_error(points, times, scale, noise, variance):
    """The mean error in % of a Gaussian process around a linear trend of the logarithms: each row is predicted from the others."""
    def covariance(one, other):
        distance = sum((x - y)**2 for x, y in zip(one, other))
        return variance * math.exp(-distance / (2 * scale**2)) + 4 * (1 + sum(x * y for x, y in zip(one, other)))
    kernel = [[covariance(one, other) + (noise**2 if one is other else 0) for other in points] for one in points]
    precision = inverse(kernel)
    middle = statistics.mean(times)
    weights = [sum(entry * (time - middle) for entry, time in zip(line, times)) for line in precision]
    return 100 * statistics.mean(abs(math.expm1(-weight / precision[i][i])) for i, weight in enumerate(weights))


def smooth_fit_error(name):
    """The number of rows of a table, and the least leave_one_out_error() of several scales, which are chosen with these rows known."""
    measured = [row for row in rows(f"rubick/{name}.csv") if float(row["iter_time"]) > 0]
    columns = list(zip(*map(features, measured)))
    spreads = [statistics.pstdev(column) or 1 for column in columns]
    points = [[value / spread for value, spread in zip(map(float, features(row)), spreads)] for row in measured]
    times = [math.log(float(row["iter_time"])) for row in measured]
    choices = itertools.product((0.5, 1, 2, 4), (0.02, 0.05, 0.1), (0.1, 1))
    return len(points), min(leave_one_out_error(points, times, *choice) for choice in choices)


def estimate(row):
    """GiB of states, activations and logits, as in tpx-throughput(5) for a GPT with full recomputation, without overhead."""
    layers, hidden, heads, gradient, dp, tp, pp, micro, batch = (float(row[key]) for key in (
        "layers", "hidden", "heads", "gradient_bytes", "dp", "tp", "pp", "micro_batch", "batch"))
    words, tokens = 250880, 2048
    total = layers * (12 * hidden * hidden + 13 * hidden) + (words + tokens) * hidden
    own = ((total - words * hidden) / pp + words * hidden if pp > 1 else total) / tp
    cell = tokens * micro * hidden
    activations = cell * (2 * layers / pp * min(batch / dp / micro, pp) + 10 + 24 / tp + 5 * heads * tokens / (hidden * tp))
    return (own * (2 + gradient + 12 / dp) + activations + tokens * micro * words / tp * 6) / 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    t4 = [((*sorted(row["placement"].split("+")), row["batch"]), float(row["seconds"])) for row in rows("pollux/bert.csv")]
    plans = rows("bigscience/memory.csv")
    keys = [key for key in plans[0] if key not in ("memory", "seconds")]
    lines = ["`bench/noise.py`: how far rows are apart that no model with the inputs of tpx can tell apart: "
             "T4 with the same GPUs of each host in",
             "another order, and repeated plans of BigScience. The A800 tables have no such rows.", "",
             "| table | rows with a twin | deviation of a row | mean error of the medians |", "|---|---|---|---|"]
    repeated = [(tuple(row[key] for key in keys), float(row["seconds"])) for row in plans if row["seconds"]]
    for name, timed in (("T4", t4), ("BigScience", repeated)):
        lines.append("| {} | {} | {:.1f} % | {:.1f} % |".format(name, *spread(timed)))
    lines += ["", "A800, uneven placements measured without and with full recomputation. The deviation of a row is an estimate: "
              "it takes the ratio of the",
              "two to be the same on all placements.", "",
              "| model | placements | faster with recomputation | deviation of a row |", "|---|---|---|---|"]
    for name in ("gpt2", "t5", "bert", "roberta", "vit"):
        lines.append("| {} | {} | {} | {:.1f} % |".format(name, *recomputation(name)))
    lines += ["", "A smooth fit without a model of the hardware (a Gaussian process around a log-linear trend in degrees, "
              "placement and kind of plan), each",
              "row predicted from all others; its scales are chosen with these rows known:", "",
              "| model | rows | mean error |", "|---|---|---|"]
    for name in ("gpt2", "t5", "bert", "roberta", "vit", "llama7"):
        lines.append("| {} | {} | {:.1f} % |".format(name, *smooth_fit_error(name)))
    ran = [estimate(row) for row in plans if row["memory"] != "OOM"]
    failed = sorted(estimate(row) for row in plans if row["memory"] == "OOM")
    above = ", ".join(f"{gib:.1f} ({sum(one >= gib for one in ran)})" for gib in failed)
    lines += ["", f"Memory of BigScience: estimates in GiB of the {len(failed)} plans that ran out of memory, "
              f"and in brackets how many of the {len(ran)} plans that ran",
              f"have at least this estimate: {above}. "
              f"A limit on this estimate that refuses all {len(failed)} therefore refuses that many plans that ran."]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        results.put("noise of measured rows", text)


if __name__ == "__main__":
    main()
