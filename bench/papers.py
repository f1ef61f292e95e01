#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""papers.py TPX [--write]: the figures and tables of VirtualFlow (MLSys 2022), Rubick (MLSys 2025) and Tenplex (SOSP 2024) that
can be computed from data that their authors published, compared with the results of tpx for the same data. Each row has the
value in the paper, the value from the authors' logs, simulator or scripts, and the value from tpx. All data is in testdata/."""
import argparse
import csv
import statistics
import tempfile
from pathlib import Path

import results
import rubick_table
import tenplex
from figures import PROFILE, SIMULATE, jobs_of, percent, row, run, simulate, table


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
    """The assignments of Table 4 as given, and the best assignments that tpx finds for the GPUs of H2 and H3."""
    folder = PROFILE / "virtualflow"
    profiles = ["--profile", "V100=v100-resnet.txt", "--profile", "P100=p100-resnet.txt", "--communication", 1.06118506202]
    # GPUs x virtual nodes per GPU x images per virtual node; the rate that the authors' solver predicts, and the measured rate.
    given = {"H1a": ("2x8x256", "2x8x256", 987.894, 978.25), "H1b": ("2x16x192", "2x4x256", 1751.630, 1745.47),
             "H1c": ("2x32x96", "2x4x256", 1751.630, 1745.58), "H2a": ("2x16x192", "4x2x256", 2169.308, 2139.48),
             "H2b": ("2x16x192", "4x4x128", 2169.308, 2054.21), "H2c": ("2x16x192", "4x8x64", 2169.308, 2169.04),
             "H2d": ("2x16x192", "4x16x32", 2169.308, 2174.31), "H3": ("2x8x256", "8x2x256", 2855.364, 2803.32)}
    profiled = {"V100": ("192", "256"), "P100": ("256",)}
    first = "VirtualFlow, Fig. 13, 14"
    for name, (v100, p100, solver, rate) in given.items():
        sizes = {"V100": v100.rsplit("x", 1)[1], "P100": p100.rsplit("x", 1)[1]}
        published, ours, note = f"{solver:.1f}; {rate:.1f}", "", ""
        if all(size in profiled[gpu] for gpu, size in sizes.items()):
            said = run(tpx, "profile", "hetero", *profiles, "--assign", f"V100={v100}", "--assign", f"P100={p100}", cwd=folder)
            ours = f"{said['throughput']:.1f}"
            if abs(said["throughput"] / solver - 1) > 0.001:
                note = "the logs do not contain this assignment; the paper's Table 4 gives these sizes"
        else:
            note = "the rate at this batch size is not published"
        row(first, f"{name}, given: V100={v100}, P100={p100}; images/s (solver; measured)", "", published, ours, note)
        first = ""
    for p100, name in ((4, "H2"), (8, "H3")):
        said = run(tpx, "profile", "hetero", *profiles, "--count", "V100=2", "--count", f"P100={p100}", "--batch", 8192, cwd=folder)
        solver = 2169.308 if p100 == 4 else 2855.364
        row("", f"{name}, the best assignment of 2 V100 + {p100} P100: images/s", "", f"{solver:.1f}", f"{said['throughput']:.1f}")


def model_of(v100, k80):
    """The model of a logged job, guessed from its examples per second because the log does not name it."""
    if v100 > 10000:
        return "transformer"
    return "resnet" if v100 > 1000 else "CoLA" if k80 > 374 else "SST-2"


def write_kinds(folder, jobs, mixes):
    """Writes a trace of logged jobs, and their rates on each GPU type and on the `mixes` of GPU types of their model."""
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
    """Mean completion times under Gavel's policy on 4 V100, 8 P100 and 16 K80, with one or several kinds of GPUs per job."""
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
    """Compares the plan that the model predicts to be fastest with the fastest measured plan of LLaMA-2-7B on a placement."""
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
        row("Rubick, as Fig. 7, batch 8" if first else "", f"fastest plan of LLaMA-2-7B, {name}", "", f"{plan_text(best)}: {plans[best]:.3f} s",
            f"{plan_text(ours)}: {plans[ours]:.3f} s", f"of {len(plans)} measured plans; tpx: the plan that its model predicts to be fastest")
        first = False


RUBICK_COLUMNS = "name,submission_time,duration,application,num_gpus,num_cpus,exec_plan,steps,is_sla\n"
THREADS = "2"  # CPU threads per GPU


def limits(tpx, folder):
    """Fig. 7 as one run: a job limited to 4x8, 4x4, 1x4 and 1 GPU for an hour each; then with twice as many CPU threads."""
    speeds = Path(folder) / "llama16"
    speeds.mkdir()
    with open(PROFILE / "rubick-16/llama7.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    (speeds / "llama7.csv").write_text("exec_plan,placement,iter_time\n" + "".join(
        f"{one['exec_plan']},{one['placement']},{one['iter_time']}\n" for one in runs if one["cpu_threads"] == THREADS))
    best = [min(float(one["iter_time"]) for one in runs
                if one["placement"] == place and one["cpu_threads"] == THREADS and float(one["iter_time"]) > 0)
            for place in ("8888", "4444", "4", "1")]
    steps = round(sum(3600 / seconds for seconds in best))
    trace, events = Path(folder) / "limits.csv", Path(folder) / "limits-events.csv"
    trace.write_text(RUBICK_COLUMNS + f"llama,0,{steps * best[0]},llama7,32,64,244,{steps},1\n")
    rows = [f"3600,n{host},4" for host in range(4)] + [f"7200,n{host},0" for host in (1, 2, 3)] + ["10800,n0,1"]
    events.write_text("\n".join(["time,host,gpus", *rows]) + "\n")
    ours = simulate(tpx, trace, "4x8", "--speeds", speeds, "--events", events, "--policy", "rubick")["rubick"]
    row("Rubick, Fig. 7", f"LLaMA-2-7B with at most 32, 16, 4 and then 1 GPUs, an hour each: hours for {steps:,} steps; changes of plan", "",
        "4.00; 3 (fastest measured plans)", f"{ours['makespan'] / 3600:.2f}; {ours['changes']}", "changes cost nothing here")
    threads(tpx, folder)


def threads(tpx, folder):
    model, columns = Path(folder) / "llama16.toml", Path(folder) / "columns16.toml"
    model.write_text((PROFILE / "rubick/llama7.toml").read_text().replace("batch = 8", "batch = 16"))
    columns.write_text('cpus = "cpu_threads"\n' + (PROFILE / "rubick/columns-llama7.toml").read_text().replace(
        "zero-offload =", '"zero-offload+gc" ='))
    fitted = Path(folder) / "llama16.model.toml"
    run(tpx, "profile", "fit", PROFILE / "rubick-16/llama7.csv", "--model", model, "--columns", columns, "-o", fitted)
    said = [run(tpx, "profile", "predict", fitted, "--with", "dp=1,ga=16,zero=2,recompute=full,offload", "--on", "1", "--cpus", cpus)
            for cpus in (2, 4)]
    row("", "the same job on 1 GPU, optimizer on the CPU: s per step with 2 and with 4 threads", "1.7 times as fast", "66; 46",
        "; ".join(f"{one['seconds']:.0f}" for one in said), "the model is fitted to all runs, these two included")


def two_jobs(tpx, folder):
    """Fig. 8: RoBERTa and T5 on four GPUs; speeds are relative to four GPUs under the best measured plan."""
    best = {}
    for model in ("roberta", "t5"):
        times = measured(model)
        best[model] = {gpus: min((seconds, plan) for (plan, place), seconds in times.items() if place == str(gpus))
                       for gpus in range(1, 5) if any(place == str(gpus) for _, place in times)}
    splits = {(a, 4 - a): best["roberta"][4][0] / best["roberta"][a][0] + best["t5"][4][0] / best["t5"][4 - a][0]
              for a in (1, 2, 3) if a in best["roberta"] and 4 - a in best["t5"]}
    (a, b), most = max(splits.items(), key=lambda item: item[1])
    rates = []
    for short in best:  # the short job finishes before the share of any job changes
        trace, out = Path(folder) / f"two-{short}.csv", Path(folder) / f"two-{short}-jobs.csv"
        lines = []
        for model, points in best.items():
            steps = 10_000 if model == short else 10_000_000
            lines.append(f"{model},0,{steps * points[4][0]},{model},4,16,{points[4][1]},{steps},{int(model == 'none')}\n")
        trace.write_text(RUBICK_COLUMNS + "".join(lines) + "last,1e8,1,bert,1,1,ga,1,1\n")  # at least one job must be guaranteed
        simulate(tpx, trace, "1x4", "--speeds", PROFILE / "rubick", "--policy", "rubick", "--jobs", out)
        rates.append(10_000 * best[short][4][0] / float(jobs_of(out, "rubick")[short]["finish"]))
    row("Rubick, Fig. 8", "RoBERTa and T5 on 4 GPUs: sum of their speeds relative to 4 GPUs each", "1.44",
        f"{most:.2f} ({a} + {b} GPUs, best measured plans)", f"{sum(rates):.2f}",
        "T5 of 1.2B parameters, interpolated on 3 GPUs: step times of the paper's T5 of 3B are not in testdata/")


def refitting(tpx, folder):
    """Predicted step times of right models, of wrong models, and of wrong models corrected during the run: means of ten samples."""
    models = Path(folder) / "refit"
    models.mkdir()
    for table in (PROFILE / "rubick").glob("*.csv"):
        (models / f"{table.stem}.toml").write_text(fit(tpx, folder, table.stem).read_text())
    ways = {"right": [], "wrong": ["--model-error", 0.7], "corrected": ["--model-error", 0.7, "--refit", "60s"]}
    means = {name: statistics.fmean(simulate(tpx, SIMULATE / "rubick-base.csv", "8x8", "--speeds", models, "--reconfig", 78, "--policy",
                                             "rubick", "--sample", 0.9, "--seed", seed, *words)["rubick"]["mean_jct"] / 60
                                    for seed in range(1, 11)) for name, words in ways.items()}
    row("Rubick, online refitting", "mean completion time, min: right models; parameters off by 70 %; the same, corrected after 60 s", "", "",
        "; ".join(f"{value:.1f}" for value in means.values()), "the paper describes refitting; nothing is published to compare with")


NOT_RUN = """
–: no number of the paper was at hand to compare with, as where it only draws a curve. *not at hand*: the same for the whole paper on
Tenplex; the next column has the values in its published scripts.

Figures that are not in the table, and why:

| paper | what | reason |
| --- | --- | --- |
| VirtualFlow | accuracy and convergence | results of training, not of a simulator |
| VirtualFlow | memory and overhead of virtual nodes (Fig. 17, 18) | measured on GPUs; no logs are published |
| VirtualFlow | H1c and H2b to H2d as given (Fig. 14) | rates of a V100 at 96 images and of a P100 at 128, 64 and 32 are not published |
| Rubick | cores and bandwidth (Fig. 2), Fig. 3 | no step times with other networks are published, and with other numbers of cores only those of one plan |
| Rubick | Table 2 | `bench/throughput.py` reports prediction errors, with its own splits into training and test runs |
| Rubick | runs on 64 A800, Fig. 11 | only the inputs of the published simulator are published |
| Tenplex | convergence (Fig. 2, 16) | results of training |
| Tenplex | performance by parallelization (Fig. 3) | measured on GPUs; the tables (`bert.csv`, `gpt.csv`) are not published |
| Tenplex | Horovod (Fig. 13), cluster sizes (Fig. 15) | scripts are published, the logs with the results are not |

On emulated hosts, `bench/network.py` measures the cases of the Tenplex paper: changes of DP, PP and TP, redeployment and failures,
compared with a reload from shared storage and a central copy."""


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
        limits(tpx, folder)
        two_jobs(tpx, folder)
        rubick_table.add_rows(tpx)
        refitting(tpx, folder)
        tenplex.add_rows(tpx, folder)
    print(table() + "\n" + NOT_RUN)
    if given.write:
        results.put("The papers (papers.py)", table() + "\n" + NOT_RUN)


if __name__ == "__main__":
    main()
