# SPDX-License-Identifier: Apache-2.0
"""The figures of Tenplex (SOSP 2024) for papers.py: the values in its published scripts, and the results of tpx."""
from pathlib import Path

from figures import SIMULATE, row, run, simulate

NIC = 12.5e9  # 100 Gbit/s, as in the on-premise cluster of 4 hosts with 4 GPUs each
MODELS = ("1.3B", "2.7B", "6.7B")
PAPER = "not at hand"  # its published scripts are


def hosts_file(folder):
    path = Path(folder) / "tenplex-hosts.toml"
    path.write_text("".join(f'[[hosts]]\nname = "n{host}"\ngpus = 4\nnic = {NIC}\n' for host in range(4)))
    return path


def planned(tpx, folder, model, before, after, *words):
    said = run(tpx, "plan", "--model", f"gpt3-{model.lower()}", "--from", before, "--to", after, "--hosts", hosts_file(folder), *words)
    return said["total"]["other_host"], said["seconds"]


def central_bytes(total, held, others):
    """Bytes through one host that holds the share `held`: it receives the rest, and sends the share `others`."""
    return total * (1 - held + others)


def parallelizations(tpx, folder):
    """Fig. 14 of the paper: GPT-3 from 8 to 16 GPUs by more DP, TP or PP; Tenplex, and through one central host."""
    published = {"dp": ((8.5, 11.5, 24.2), (27.2, 39, 96.1)), "tp": ((7.4, 10.5, 20.2), (20.4, 28.5, 74)),
                 "pp": ((4.6, 5.9, 10.8), (4.6, 18.2, 38))}
    to = {"dp": "tp=4,pp=2,dp=2", "tp": "tp=8,pp=2", "pp": "tp=4,pp=4"}
    others = {"dp": 1.5, "tp": 0.75, "pp": 0.75}  # three hosts get halves of the state, or quarters
    first = "Tenplex, Fig. 14"
    for kind, (direct, central) in published.items():
        for i, model in enumerate(MODELS):
            bytes_moved, seconds = planned(tpx, folder, model, "tp=4,pp=2", to[kind])
            state = planned(tpx, folder, model, "tp=4,pp=2", "tp=4,pp=2,dp=2")[0]  # all bytes of the state, once
            through_one = central_bytes(state, 0.5, others[kind]) / NIC
            row(first, f"{model}, 8 → 16 GPUs by {kind.upper()}: s, directly; centrally (ratio)", PAPER,
                f"{direct[i]:g}; {central[i]:g} ({central[i] / direct[i]:.1f})",
                f"{seconds:.2f}",
                f"all state through one NIC, computed by hand: {through_one:.2f} ({through_one / seconds:.1f})"
                + ("; tpx: the busiest NIC alone; measured times include reading, splitting and writing of tensors" if first else ""))
            first = ""


def redeployment(tpx, folder):
    first = "Tenplex, Fig. 10"
    for model in MODELS:
        state = planned(tpx, folder, model, "tp=4,pp=2", "tp=4,pp=2,dp=2")[0]
        seconds = state / 2 / NIC
        through_one = central_bytes(state, 0.5, 1.0) / NIC
        row(first, f"{model}, 8 GPUs to 8 others: s, directly; centrally (ratio)", PAPER, "", "",
            f"computed by hand from the bytes that tpx plans: {seconds:.2f}; {through_one:.2f} ({through_one / seconds:.1f})"
            + ("; the times are in logs that are not published" if first else ""))
        first = ""


def failures(tpx, folder):
    """GPT-3 2.7B on 4 hosts with 4 GPUs each and two replicas; 1, 2 and 3 hosts fail. Repeated training takes 360 s."""
    trace = Path(folder) / "failure.csv"
    trace.write_text('name,arrival,gpus,min_gpus,max_gpus,duration,scaling,model,plan\ngpt3,0,16,4,16,7200,1,gpt3,"tp=4,pp=2"\n')
    models = Path(folder) / "failure.toml"
    models.write_text('[[models]]\nname = "gpt3"\nmodel = "gpt3-2.7b"\nlayout = "tp=4,pp=2"\n')
    published = {4: (23.5, 0), 8: (19.6, 0), 12: (19.6, 360)}
    lost = {4: (3,), 8: (1, 3), 12: (1, 2, 3)}
    for gpus, hosts in lost.items():
        # A checkpoint every 720 s, the last one 360 s before the failure.
        outages = Path(folder) / "failure-hosts.csv"
        outages.write_text("host,begin,end\n" + "".join(f"n{host},1800,\n" for host in hosts))
        ours = {}
        for recover in ("replicas", "checkpoint"):
            done = []
            for checkpoint in ("720", "1"):  # the difference is the repeated work
                said = simulate(tpx, trace, "4x4", "--policy", "wfs", "--models", models, "--reconfig", "plan", "--restart", 0,
                                "--hardware", hosts_file(folder), "--outages", outages, "--checkpoint", checkpoint, "--recover", recover)
                done.append(said["wfs"])
            slower = {4: 2, 8: 2, 12: 4}[gpus]  # the job continues on 8, 8 or 4 GPUs
            ours[recover] = (done[0]["paused"], max(0, done[0]["makespan"] - done[1]["makespan"]) / slower)
        row("Tenplex, Fig. 11" if gpus == 4 else "", f"{gpus} of 16 GPUs fail: s, recovery + repeated training; baseline", PAPER,
            f"{published[gpus][0]:g} + {published[gpus][1]}; {published[gpus][0]:g} + 360",
            "; ".join(f"{pause:.1f} + {again:.0f}" for pause, again in ours.values()),
            "tpx: transfers alone, without restart; repeated training in seconds on 16 GPUs" if gpus == 4 else "")


def elastic_job(tpx, folder):
    """The elastic GPT-3 XL job: any layout, or only data parallelism on whole replicas of 8 GPUs."""
    events = SIMULATE / "tenplex-events.csv"
    words = ["--events", events, "--models", SIMULATE / "tenplex-models.toml", "--policy", "wfs"]
    times = {}
    for name, least in (("any", 4), ("DP", 8)):
        trace = Path(folder) / f"elastic-{name}.csv"
        text = (SIMULATE / "tenplex.csv").read_text()
        trace.write_text(text.replace(",16,4,16,", f",16,{least},16,"))
        for way in ("plan", "central", "checkpoint"):
            ours = simulate(tpx, trace, "4x4", *words, "--reconfig", way)["wfs"]
            times[name, way] = (ours["makespan"] / 60, ours["unfinished"], ours["trained"])
    said = "; ".join(f"{times['any', way][0]:.0f}" for way in ("plan", "central", "checkpoint"))
    row("Tenplex, Fig. 9", "min until the job is done on 4 to 16 GPUs, state moved directly; centrally; through storage", "538", "538",
        said, "the schedule is published, step times are not: speed is assumed to be proportional to GPUs, and the work to take 538 min without transfers")
    row("", "the same, only data parallel (8 or 16 GPUs)", PAPER, "", "; ".join(f"{times['DP', way][0]:.0f}" for way in ("plan", "central", "checkpoint")),
        "the job pauses while only 4 GPUs are left, as in the published plot")


def scaling(tpx, folder):
    row("Tenplex, Fig. 12", "GPT-3 1.3B, 8 → 16; 16 → 8 GPUs: s (Tenplex; Singularity; DeepSpeed)", PAPER,
        "87.2, 70.2; 97, 122; 115, 195",
        ", ".join(f"{planned(tpx, folder, '1.3B', a, b)[1]:.2f}" for a, b in (("tp=4,pp=2", "tp=4,pp=2,dp=2"), ("tp=4,pp=2,dp=2", "tp=4,pp=2"))),
        "tpx: transfers alone; measured times consist mostly of restarting containers and frameworks")


def add_rows(tpx, folder):
    elastic_job(tpx, folder)
    scaling(tpx, folder)
    parallelizations(tpx, folder)
    redeployment(tpx, folder)
    failures(tpx, folder)
