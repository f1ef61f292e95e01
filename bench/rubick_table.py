# SPDX-License-Identifier: Apache-2.0
"""Table 4 of Rubick (MLSys 2025) for papers.py."""
from figures import PROFILE, SIMULATE, row, simulate


def add_rows(tpx):
    paper = {"rubick": (0.96, 7.1, 15.3), "sia": (2.5, 12.2, 18.8), "synergy": (3.1, 13.5, 21.5), "rubick-e": (2.4, 10.9, 20.2),
             "rubick-r": (1.6, 9.9, 19.8), "rubick-n": (3.1, 12.8, 22)}
    multi = {"rubick": (1.1, 11.4, 17.9), "antman": (1.75, 13.4, 19.6)}
    artifact = {"base": "1.01 / 8.10 / 16.30", "mt": "1.12 / 7.93 / 16.88"}
    notes = {"rubick": "in the published simulator, stopped jobs continue to train, see \"Against Rubick's paper\"",
             "sia": "the objective is solved exactly; the paper's runs of Sia are not published",
             "fifo-backfill": "not in the paper"}
    classes, tails = {}, {}
    for trace, known in (("base", paper), ("mt", multi)):
        ours = simulate(tpx, SIMULATE / f"rubick-{trace}.csv", "8x8", "--speeds", PROFILE / "rubick", "--reconfig", 78, "--policy",
                        ",".join([*known, "fifo-backfill"]))
        for policy in [*known, "fifo-backfill"]:
            values = [ours[policy][key] / 3600 for key in ("mean_jct", "p99_jct", "makespan")]
            if ours[policy].get("classes") and trace == "mt":
                classes[policy] = [one["mean_jct"] / 3600 for one in ours[policy]["classes"]]
                tails[policy] = [one["p99_jct"] / 3600 for one in ours[policy]["classes"]]
            row(f"Rubick, Table 4, {trace}" if policy == "rubick" else "", f"{policy}: mean / P99 / makespan, h",
                " / ".join(f"{value:g}" for value in known.get(policy, ())), artifact[trace] if policy == "rubick" else "",
                " / ".join(f"{value:.2f}" for value in values), notes.get(policy, "no published run"))
    printed = {"rubick": ("0.85 / 10.9", "1.34 / 11.8"), "antman": ("1.41 / 11.7", "2.1 / 14.1")}
    logged = {"rubick": ("0.647", "1.545")}
    for policy, paper_values in printed.items():
        for i, name in enumerate(("guaranteed", "best-effort")):
            row("", f"{policy}, {name} jobs: mean / P99, h", paper_values[i], logged.get(policy, ("", ""))[i] and
                logged[policy][i] + " (mean)", f"{classes[policy][i]:.2f} / {tails[policy][i]:.2f}")
