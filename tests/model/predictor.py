# SPDX-License-Identifier: Apache-2.0
"""Predicts steps and memory as described in tpx-throughput(5), from a list of every rank, and compares the results with
those of tpx.

    predictor.py TPX [--rounds N] [--seed N]

Shares no code with tpx. Models, parameters, plans and placements are random."""
import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

PARAMETERS = {  # name: lowest and highest value drawn
    "forward": (1e-3, 1), "model_parallel": (0.5, 2), "recompute": (0.8, 1.2), "k_bwd": (1, 3), "k_sync": (1.01, 4),
    "k_opt": (1e-11, 1e-10), "k_optoff": (1e-9, 1e-8), "k_off": (1.01, 3), "k_swap": (1.01, 3), "zero_exchange": (0.4, 1),
    "k_const": (1e-3, 0.1), "intra": (2e10, 4e11), "tensor_rate": (0.3, 1), "nic": (1e9, 5e10), "pcie": (5e9, 3e10),
    "further_host": (1e-4, 1e-2), "further_stage": (1e-3, 5e-2), "uneven": (1e-3, 0.2), "uneven_alike": (0.1, 2),
    "two_hosts": (0.5, 2), "uneven_doubling": (0.5, 2)}


def power_mean(x, y, k):
    """(x^k + y^k)^(1/k), scaled so that nothing overflows."""
    most = max(x, y)
    return most * ((x / most) ** k + (y / most) ** k) ** (1 / k) if most else 0


class Ranks:
    """Where each rank is: its host and its NIC."""

    def __init__(self, plan, hosts, gpus_per_nic):
        self.plan, self.hosts = plan, hosts
        self.at = [(h, int(i // max(1, gpus_per_nic))) for h, gpus in enumerate(hosts) for i in range(gpus)]
        self.nics_of_gpu = max(1, 1 / gpus_per_nic)
        self.gpus_per_nic = gpus_per_nic
        self.replicas = plan["dp"] * plan["cp"]

    def rank(self, stage, replica, tensor):
        return self.at[(stage * self.replicas + replica) * self.plan["tp"] + tensor]

    def rings(self):
        for stage in range(self.plan["pp"]):
            for tensor in range(self.plan["tp"]):
                yield [self.rank(stage, replica, tensor) for replica in range(self.replicas)]

    def data_nics(self):
        """The NICs of the ring between hosts that has the fewest; a NIC is divided among the rings that leave through
        it."""
        leaving = [set(ring) for ring in self.rings() if len({host for host, _ in ring}) > 1]
        rings_at = {}
        for ring in leaving:
            for place in ring:
                rings_at[place] = rings_at.get(place, 0) + 1
        shares = [sum(1 / rings_at[place] for place in ring if place[0] == host) for ring in leaving for host in {h for h, _ in ring}]
        return min(shares, default=0) * self.nics_of_gpu

    def tensor_cuts(self):
        """The share of stages with a group on two hosts, and the NICs of the smaller side of the worst one."""
        tp, edges, edge = self.plan["tp"], [], 0
        for gpus in self.hosts[:-1]:
            edge += gpus
            if edge % tp:
                edges.append(edge)
        stages = {edge // (tp * self.replicas) for edge in edges}
        sides = [math.ceil(min(edge % tp, tp - edge % tp) / self.gpus_per_nic) for edge in edges]
        return len(stages) / self.plan["pp"], min(sides, default=0)

    def borders(self):
        """The share of stage boundaries that are not inside a host, and the NICs per GPU there."""
        size, pp = self.plan["tp"] * self.replicas, self.plan["pp"]
        crossed = sum(self.at[s * size][0] != self.at[(s + 2) * size - 1][0] for s in range(pp - 1))
        senders = [min(gpus, size) for gpus in self.hosts]
        return crossed / max(1, pp - 1), min(math.ceil(n / self.gpus_per_nic) / n for n in senders)


def step_seconds(model, job, is_, plan, hosts, batch):
    d, t, p, c, v, m, a = (plan[key] for key in ("dp", "tp", "pp", "cp", "vpp", "mb", "ga"))
    ranks, several = Ranks(plan, hosts, job["gpus_per_nic"]), len(hosts) > 1
    passes = m + (p - 1) / v  # of a stage, in units of its own micro-batch
    local = math.ceil(batch / d) / a
    forward = is_["forward"] * (is_["model_parallel"] if t * p > 1 else 1) * local / (c * t * p) * passes / m
    backward = is_["k_bwd"] * forward
    s, h, B, own = model["sequence"], model["hidden"], model["bytes"], model["parameters"] / (t * p)
    again = {"none": 0, "selective": 0 if model["flash_attention"] else s / (6 * h + s), "full": is_["recompute"]}[plan["recompute"]]
    total = a * forward * (1 + again) + a * backward
    nics, n = ranks.data_nics(), d * c
    exchange = B * own * 2 * (n - 1) / n / (nics * is_["nic"] if nics else is_["intra"])
    exchange *= is_["two_hosts"] if nics and len(hosts) == 2 else 1
    sync = lambda seconds, other: power_mean(seconds, other, is_["k_sync"]) - seconds
    if plan["offload"]:
        copy, behind = B * own / is_["pcie"], power_mean(backward, exchange, is_["k_sync"])
        update = is_["k_optoff"] * own / (n * job["cpus"])
        total += (a - 1) * (power_mean(backward, copy, is_["k_off"]) - backward)
        total += power_mean(behind, copy, is_["k_off"]) - backward + power_mean(update, copy, is_["k_swap"])
    else:
        zero = plan["zero"]
        reduced = exchange * (1 if zero == 0 else is_["zero_exchange"] + (0.5 if zero == 3 else 0))
        total += (a if zero >= 2 else 1) * sync(backward, reduced) + (exchange / 2 if zero in (1, 2) else 0)
        total += a * sync(forward, exchange / 2) if zero == 3 else 0
        total += is_["k_opt"] * own / (n if zero else 1)
    if t > 1:
        reduced = (6 if plan["recompute"] == "full" else 4) * B * local * a / c * s * h * model["layers"] / p * 2 * (t - 1) / t
        cut, cut_nics = ranks.tensor_cuts()
        total += reduced * passes / m * ((1 - cut) / (is_["intra"] * is_["tensor_rate"]) + (cut / (cut_nics * is_["nic"]) if cut else 0))
    if p > 1:
        sent = 2 * B * local * a / (c * m) * s * h / (t if plan["sp"] else 1) * (m * v + p - 2)
        cut, each = ranks.borders() if several else (0, 1)
        total += sent * ((1 - cut) / is_["intra"] + cut / (each * is_["nic"])) + is_["further_stage"] * (p - 1)
    total += is_["k_const"] * a * passes / p
    if t * p == 1 and several:
        total += is_["further_host"] * (len(hosts) - 1)
        alike = len(set(hosts)) == 1 and hosts[0] <= job["gpus_per_nic"]
        doublings = math.log2(math.ceil(max(hosts) / job["gpus_per_nic"]))
        seconds = is_["uneven"] * (is_["uneven_alike"] if alike else is_["uneven_doubling"] ** doublings)
        total += seconds if any(g % job["gpus_per_nic"] for g in hosts) and not plan["offload"] else 0
    return total


def gpu_bytes(model, plan, batch):
    """The memory of the fullest GPU, before calibration."""
    t, p, n = plan["tp"], plan["pp"], plan["dp"] * plan["cp"]
    embedding = min(model["vocabulary"] * model["hidden"], model["parameters"])
    own = model["parameters"] / t if p == 1 else ((model["parameters"] - embedding) / p + embedding) / t
    weights, gradients, optimizer = model["bytes"] * own, model["gradient_bytes"] * own, 12 * own
    if plan["zero"] == 3:
        weights = weights / n + 2 * weights / max(1, model["layers"] / p)
    gradients /= n if plan["zero"] >= 2 else 1
    optimizer /= n if plan["zero"] >= 1 else 1
    if plan["offload"]:
        gradients, optimizer = min(gradients, 5e8), 0
    u, s, h = math.ceil(batch / plan["dp"]) / plan["ga"] / plan["mb"] / plan["cp"], model["sequence"], model["hidden"]
    cell = s * u * h * model["bytes"] / 2
    scores = 0 if model["flash_attention"] else 5 * model["heads"] * s / (h * t)
    whole = cell * ((34 / t if plan["sp"] else 10 + 24 / t) + scores)
    layer = {"none": whole, "selective": whole - cell * scores, "full": 2 * cell / (t if plan["sp"] else 1)}[plan["recompute"]]
    in_flight = min(plan["mb"], p) * (1 + ((p - 1) / p / plan["vpp"] if plan["vpp"] > 1 else 0))
    logits = s * u * model["vocabulary"] / t * (model["bytes"] + 4)
    return weights + gradients + optimizer + layer * model["layers"] / p * in_flight + (whole if plan["recompute"] == "full" else 0) + logits


def draw(rng):
    plan = {"dp": rng.choice([1, 1, 2, 3, 4, 8]), "tp": rng.choice([1, 1, 2, 3, 4, 8]), "pp": rng.choice([1, 1, 2, 3, 4]), "cp": rng.choice([1, 1, 1, 2]),
            "vpp": 1, "mb": 1, "ga": 1, "recompute": rng.choice(["none", "selective", "full"]), "zero": rng.randrange(4), "offload": False, "sp": False}
    plan["sp"] = plan["tp"] > 1 and rng.random() < 0.5
    if plan["pp"] > 1:
        plan["mb"], plan["vpp"] = rng.choice([1, 2, 8]), rng.choice([1, 1, 2])
    else:
        plan["ga"] = rng.choice([1, 2, 4])
    if plan["tp"] * plan["pp"] == 1 and rng.random() < 0.4:
        plan["offload"], plan["zero"] = True, 2
    left, hosts, same = plan["dp"] * plan["tp"] * plan["pp"] * plan["cp"], [], rng.choice([0, 1, 2, 4, 8])
    while left:
        hosts.append(min(left, same or rng.randint(1, 8)))
        left -= hosts[-1]
    return plan, hosts, plan["dp"] * plan["ga"] * plan["mb"] * rng.randint(1, 3) + rng.choice([0, 0, 1])


def plan_text(plan):
    words = [f"{key}={plan[key]}" for key in ("dp", "tp", "pp", "cp", "vpp", "mb", "ga", "zero") if plan[key] != (0 if key == "zero" else 1)]
    words += [f"recompute={plan['recompute']}"] if plan["recompute"] != "none" else []
    return ",".join(words + [key for key in ("offload", "sp") if plan[key]]) or "dp=1"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tpx")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, worst = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.toml"
        for number in range(arguments.rounds):
            model = {"parameters": rng.uniform(1e8, 1e10), "layers": rng.choice([12, 24, 60]), "hidden": 1024, "heads": 16, "sequence": rng.choice([512, 2048]),
                     "vocabulary": 32000, "flash_attention": rng.random() < 0.5, "bytes": 2, "gradient_bytes": rng.choice([2, 4])}
            job = {"cpus": 4, "gpus_per_nic": rng.choice([0.5, 1, 2, 3, 8])}
            is_ = {name: math.exp(rng.uniform(math.log(low), math.log(high))) for name, (low, high) in PARAMETERS.items()}
            sections = {"model": model, "job": job, "parameters": is_, "fit": {"memory_scale": 1.0, "memory_offset": 0.0}}
            file.write_text("".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()) for name, values in sections.items()))
            plan, hosts, batch = draw(rng)
            command = [arguments.tpx, "profile", "predict", file, "--with", plan_text(plan), "--on", "+".join(map(str, hosts)), "--batch", str(batch), "--json"]
            said = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
            for what, ours, theirs in (("seconds", step_seconds(model, job, is_, plan, hosts, batch), said["seconds"]), ("bytes", gpu_bytes(model, plan, batch), said["memory"]["gpu"])):
                off = abs(theirs / ours - 1)
                worst = max(worst, off)
                if not off < 1e-9:
                    sys.exit(f"round {number}: {plan_text(plan)} on {hosts}, batch {batch}, {job}: {what} {theirs!r}, {ours!r} by the other way")
    print(f"{arguments.rounds} predictions agree to {worst:.1e}")


if __name__ == "__main__":
    main()
