#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""papers.py TPX [--write]: the figures and tables of VirtualFlow (MLSys 2022) and Rubick (MLSys 2025) that can be
computed from data that their authors published, beside what tpx computes from the same data. Each row has what the
paper prints, what the authors' logs or simulator give, and what tpx gives. All data is in testdata/."""
import argparse
import csv
import json
import subprocess
import tempfile
from pathlib import Path

import results

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


# --- VirtualFlow: jobs that change their number of GPUs

def three_jobs(tpx, folder):
    out = Path(folder) / "three.csv"
    both = simulate(tpx, SIMULATE / "virtualflow3.json", "1x4", "--speeds", SIMULATE / "virtualflow3-speeds.csv", "--policy",
                    "priority,wfs", "--delays", "start=69,grow=52,shrink=0.5,release=0.2", "--jobs", out)
    fixed, elastic = both["priority"], both["wfs"]
    last = [float(jobs_of(out, policy)["job-2"]["jct"]) for policy in ("priority", "wfs")]
    row("VirtualFlow, Fig. 10", "makespan of 3 jobs, elastic against static", "-38 %", percent(7082.9, 4361.9),
        percent(fixed["makespan"], elastic["makespan"]))
    row("", "completion time of job-2, which arrives last and has the highest priority", "-45 %", percent(6062.8, 3341.9), percent(*last))


def twenty_jobs(tpx):
    delays = {"priority": "start=82,single=0,release=10.5", "wfs": "start=82,single=0,grow=78,shrink=2.3,release=10.5"}
    speeds = {"priority": "static", "wfs": "elastic"}
    ours = {policy: simulate(tpx, SIMULATE / "virtualflow20.json", "2x4", "--speeds", SIMULATE / f"virtualflow20-{speeds[policy]}.csv",
                             "--policy", policy, "--delays", delays[policy])[policy] for policy in delays}
    logs = {"makespan": (11939.3, 6504.5), "median_jct": (2688, 1408), "median_queueing": (1850, 12.8)}
    why = "rates and mean delays are derived from the logs"
    for figure, key, words, paper in (("VirtualFlow, Fig. 11, 12", "makespan", "makespan of 20 jobs", "-45.5 %"),
                                      ("", "median_jct", "median completion time", "-47.6 %"),
                                      ("", "median_queueing", "median queueing time", "-99.3 %")):
        row(figure, words, paper, percent(*logs[key]), percent(ours["priority"][key], ours["wfs"][key]), why)
        why = ""
    row("", "GPU utilization, static; elastic", "71.1 %; 90.6 %", "71.08 %; 90.57 %",
        "; ".join(f"{100 * ours[policy]['worked']:.2f} %" for policy in delays), "the same delay for all changes of a kind")


# --- VirtualFlow: jobs on several kinds of GPUs

def assignments(tpx):
    logs = {4: ("H2", 2169.308, 2174.31), 8: ("H3", 2855.364, 2803.32)}
    folder, v100 = PROFILE / "virtualflow", 2
    for p100, (name, solver, measured_rate) in logs.items():
        said = run(tpx, "profile", "hetero", "--profile", "V100=v100-resnet.txt", "--count", f"V100={v100}", "--profile",
                   "P100=p100-resnet.txt", "--count", f"P100={p100}", "--batch", 8192, "--communication", 1.06118506202, cwd=folder)
        row("VirtualFlow, Fig. 13, 14" if p100 == 4 else "", f"{name}, 2 V100 + {p100} P100: images/s (solver; measured)", "",
            f"{solver:.1f}; {measured_rate:.1f}", f"{said['throughput']:.1f}")


def model_of(v100, k80):
    """The model of a logged job, which the log does not name, recognized by its examples per second."""
    if v100 > 10000:
        return "transformer"
    return "resnet" if v100 > 1000 else "CoLA" if k80 > 374 else "SST-2"


def write_kinds(folder, jobs, mixes):
    """Writes a trace of logged jobs and their rates on each GPU type, and on the `mixes` of types of their model."""
    trace, speeds = Path(folder) / "kinds.csv", Path(folder) / "kinds-speeds.csv"
    with trace.open("w", newline="") as file, speeds.open("w", newline="") as rates:
        writer, speed = csv.writer(file), csv.writer(rates)
        writer.writerow(["model", "arrival", "gpus", "max_gpus", "priority", "steps"])
        speed.writerow(["model", "kind", "gpus", "rate"])
        for one in jobs:
            name, model = f"j{one['job']}", model_of(float(one["thr_4xV100"]), float(one["thr_16xK80"]))
            writer.writerow([name, one["arrival_s"], 4, 28, one["priority"], one["work_examples"]])
            for kind, count in (("V100", 4), ("P100", 8), ("K80", 16)):
                speed.writerow([name, kind, count, one[f"thr_{count}x{kind}"]])
            speed.writerows([name, mix["kind"], mix["gpus"], mix["rate"]] for mix in mixes if mix["model"] == model)
    return trace, speeds


def kinds(tpx, folder):
    """Gavel's policy on 4 V100, 8 P100 and 16 K80, one kind a job or several: mean completion times."""
    with open(SIMULATE / "virtualflow-kinds.csv", newline="") as file:
        logged = list(csv.DictReader(file))
    with open(SIMULATE / "virtualflow-mixes.csv", newline="") as file:
        mixes = [one for one in csv.DictReader(file) if "+" in one["kind"]]
    cluster = Path(folder) / "kinds.toml"
    cluster.write_text("".join(f'[[hosts]]\nname = "{kind.lower()}"\ngpus = {count}\nkind = "{kind}"\n'
                               for kind, count in (("V100", 4), ("P100", 8), ("K80", 16))))
    saved = []
    for rate in sorted({one["jph"] for one in logged}, key=int):
        means = []
        for mode, policy in (("no-het", "gavel-virtualflow"), ("het", "gavel-mixed-virtualflow")):
            jobs = [one for one in logged if one["jph"] == rate and one["mode"] == mode]
            trace, speeds = write_kinds(folder, jobs, mixes if mode == "het" else [])
            ours = simulate(tpx, trace, cluster, "--speeds", speeds, "--policy", policy)[policy]["mean_jct"]
            means.append((sum(float(one["finish_s"]) - float(one["arrival_s"]) for one in jobs) / len(jobs), ours))
        saved.append((rate, *means))
    paper = {"4": "-29.2 %", "8": "-26.4 %"}
    for rate, alone, mixed in saved:
        logged, ours = (f"{alone[i]:.0f} → {mixed[i]:.0f} s ({percent(alone[i], mixed[i])})" for i in (0, 1))
        row("VirtualFlow, Fig. 15, 16" if rate == saved[0][0] else "",
            f"mean completion time at {rate} jobs/h, Gavel → mixed GPU types", paper.get(rate, ""), logged, ours)


# --- Rubick

def measured(model):
    """{(plan, placement with full hosts first): seconds} of a model's runs."""
    with open(PROFILE / f"rubick/{model}.csv", newline="") as file:
        return {(one["exec_plan"], "".join(sorted(one["placement"], reverse=True))): float(one["iter_time"])
                for one in csv.DictReader(file) if float(one["iter_time"]) > 0}


def fit(tpx, folder, model):
    made = Path(folder) / f"{model}.model.toml"
    columns = "columns-llama7.toml" if model == "llama7" else "columns.toml"
    run(tpx, "profile", "fit", PROFILE / f"rubick/{model}.csv", "--model", PROFILE / f"rubick/{model}.toml", "--columns",
        PROFILE / "rubick" / columns, "-o", made)
    return made


def plan_text(digits):
    return "pp={},tp={},dp={}".format(*digits)


def plan_choice(tpx, folder):
    """Fig. 7: whether the model picks the fastest plan of LLaMA-2-7B among those that were measured on a placement."""
    model, times = fit(tpx, folder, "llama7"), measured("llama7")
    first = True
    for placement, name in (("8888", "32 GPUs"), ("4444", "16 GPUs on 4 hosts")):
        plans = {plan: seconds for (plan, place), seconds in times.items() if place == placement and plan.isdigit()}
        predicted = {}
        for plan in plans:
            pp, tp, dp = plan
            said = run(tpx, "profile", "predict", model, "--with", f"pp={pp},tp={tp},dp={dp}", "--on", "+".join(placement))
            predicted[plan] = said["seconds"] if "seconds" in said else said["plans"][0]["seconds"]
        best, ours = min(plans, key=plans.get), min(predicted, key=predicted.get)
        row("Rubick, Fig. 7" if first else "", f"fastest plan of LLaMA-2-7B, {name}", "", f"{plan_text(best)}: {plans[best]:.3f} s",
            f"{plan_text(ours)}: {plans[ours]:.3f} s", f"of {len(plans)} measured plans; tpx: the fastest by its model")
        first = False


def table_4(tpx):
    paper = {"rubick": (0.96, 7.1, 15.3), "sia": (2.5, 12.2, 18.8), "synergy": (3.1, 13.5, 21.5), "rubick-e": (2.4, 10.9, 20.2),
             "rubick-r": (1.6, 9.9, 19.8), "rubick-n": (3.1, 12.8, 22)}
    multi = {"rubick": (1.1, 11.4, 17.9), "antman": (1.75, 13.4, 19.6)}
    artifact = {"base": "1.01 / 8.10 / 16.30", "mt": "1.12 / 7.93 / 16.88"}
    notes = {"rubick": "the published simulator lets stopped jobs train on, see \"Against Rubick's paper\"",
             "sia": "the objective is solved exactly; the paper's runs of Sia are not published",
             "fifo-backfill": "not in the paper"}
    for trace, known in (("base", paper), ("mt", multi)):
        ours = simulate(tpx, SIMULATE / f"rubick-{trace}.csv", "8x8", "--speeds", PROFILE / "rubick", "--reconfig", 78, "--policy",
                        ",".join([*known, "fifo-backfill"]))
        for policy in [*known, "fifo-backfill"]:
            values = [ours[policy][key] / 3600 for key in ("mean_jct", "p99_jct", "makespan")]
            row(f"Rubick, Table 4, {trace}" if policy == "rubick" else "", f"{policy}: mean / P99 / makespan, h",
                " / ".join(f"{value:g}" for value in known.get(policy, ())), artifact[trace] if policy == "rubick" else "",
                " / ".join(f"{value:.2f}" for value in values), notes.get(policy, "no published run"))


def table():
    head = ["Figure", "Quantity", "Paper", "Authors' logs, simulator or measurements", "tpx", "Note"]
    lines = [head, ["---"] * len(head), *ROWS]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


NOT_RUN = """
This table omits figures whose data is not published: accuracy and memory of training runs, Rubick on 64 A800, and Tenplex's times.
`bench/network.py` measures what Tenplex compares on emulated hosts: changes of DP, PP and TP, redeployment and failures, beside
a reload from shared storage and a central copy. `bench/throughput.py` reports prediction errors (Rubick, Table 2), with its own
splits into training and test runs."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tpx", type=Path)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    given = parser.parse_args()
    tpx = given.tpx.resolve()
    with tempfile.TemporaryDirectory() as folder:
        three_jobs(tpx, folder)
        twenty_jobs(tpx)
        assignments(tpx)
        kinds(tpx, folder)
        plan_choice(tpx, folder)
        table_4(tpx)
    print(table() + "\n" + NOT_RUN)
    if given.write:
        results.put("The papers (papers.py)", table() + "\n" + NOT_RUN)


if __name__ == "__main__":
    main()
