#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan_laws.py [--tpx TPX] [--instances N] [--seed N] [--write]

Checks plans of random changes, for fewest bytes, for shortest time and with free TP groups: small models, random layouts, hosts
with different rates, switches, lost and spare hosts, state in memory, in stores or on shared storage, and small windows. Each plan
file is read with h5py, and four claims are checked by code that shares nothing with tpx:

- order: a host sends bytes only after it has them, receives each byte once, and gets all bytes that it needs;
- staging: no host buffers more than the window, and the most that it buffers equals the number in the plan;
- sending: the busiest NIC (with stores: or disk) is as busy as in the optimum of a linear program over all ways to send
  each byte, which scipy's HiGHS solves;
- placement: no assignment of blocks to hosts sends fewer bytes between hosts, or as few with a shorter longest reception;
  with --objective time and state in memory, none is faster, by a linear program for each; with --placement groups, no
  placement of whole TP groups sends fewer bytes than the plan's bound or, if all placements are compared, than the plan.

Requires numpy, scipy and h5py. Exits with 1 and keeps the instance if a claim is wrong.
"""
import argparse
import itertools
import multiprocessing
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from scipy.optimize import linprog

HERE = Path(__file__).resolve().parent
STORAGE = 0xFFFFFFFF
NIC, DISK = 25e9, 5e9  # rates that tpx assumes for hosts without rates


class Wrong(Exception):
    """A claim that does not hold."""


def require(claim, *what):
    if not claim:
        raise Wrong(" ".join(map(str, what)))


# ---- random requests

def random_model(choose):
    experts = choose.choice([0, 0, 4])
    lines = {"model_type": '"mixtral"' if experts else '"llama"', "num_hidden_layers": choose.randint(1, 5), "hidden_size": 16,
             "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": choose.choice([16, 32]), "vocab_size": 32,
             "tie_word_embeddings": choose.choice(["true", "false"])}  # fmt: skip
    if experts:
        lines |= {"num_local_experts": experts, "num_experts_per_tok": 2}
    return lines


def random_layout(choose, model, ranks):
    tp = choose.choice([n for n in (1, 2, 4) if ranks % n == 0])
    pp = choose.choice([n for n in range(1, model["num_hidden_layers"] + 1) if ranks // tp % n == 0])
    text = f"tp={tp},pp={pp},dp={ranks // tp // pp}"
    if model["num_hidden_layers"] % pp:
        each = -(-model["num_hidden_layers"] // pp)
        text += f",last={model['num_hidden_layers'] - each * (pp - 1)}"
    if "num_local_experts" in model:
        text += f",ep={choose.choice([n for n in (1, 2, 4) if ranks // pp % n == 0])},etp=1"
    return text + f",zero={choose.choice([0, 1, 1, 3])}"


def random_hosts(choose):
    tables = []
    for number in range(choose.randint(2, 5)):
        table = {"name": f'"n{number}"', "gpus": choose.randint(1, 4)}
        if choose.random() < 0.6:
            table["nic"] = f'"{choose.randint(1, 40)} GB/s"'
        if choose.random() < 0.6:
            table["disk_read"] = f'"{choose.randint(1, 20)} GB/s"'
        if choose.random() < 0.4:
            table["switch"] = f'"{choose.choice("ab")}"'
        if number and choose.random() < 0.15:
            table[choose.choice(["lost", "spare"])] = "true"
        tables.append(table)
    return tables


def request(choose, folder):
    """Random options of `tpx plan`, with their files in `folder`; the layouts may be impossible."""
    model, hosts = random_model(choose), random_hosts(choose)
    (folder / "model.toml").write_text("".join(f"{key} = {value}\n" for key, value in model.items()))
    text = ("[[hosts]]\n" + "".join(f"{key} = {value}\n" for key, value in host.items()) for host in hosts)
    (folder / "hosts.toml").write_text("\n".join(text))
    old = sum(host["gpus"] for host in hosts if "spare" not in host)
    new = sum(host["gpus"] for host in hosts if "lost" not in host)
    options = ["--model", folder / "model.toml", "--hosts", folder / "hosts.toml"]
    for side, most in (("--from", old), ("--to", new)):
        options += [side, random_layout(choose, model, choose.randint(1, most))]
    options += ["--state-in", choose.choice(["memory", "stores", "shared"])]
    if choose.random() < 0.7:
        options += ["--staging", f"{choose.choice([32, 48, 64, 128, 1024])}B"]
    options += choose.choice([[], [], ["--objective", "time"], ["--placement", "groups"]])
    return list(map(str, options))


# ---- plans

class Plan:
    def __init__(self, path):
        with h5py.File(path) as file:
            read = lambda group: {name: column[:] if column.dtype.kind in "fS" else column[:].astype(np.int64) for name, column in file[group].items()}
            self.hosts, self.parcels, self.transfers, self.ranks = map(read, ("hosts", "parcels", "transfers", "ranks"))
            self.loads, self.blocks = map(read, ("loads", "blocks"))
            sets = {side: np.split(read(side)["ranks"], read(side)["begin"][1:-1]) for side in ("holders", "needers")}
            self.state, self.window = file.attrs["state"].decode(), int(file.attrs["window"])
            self.pinned, self.size = int(file.attrs["pinned"]), int(file.attrs.get("group", 1))
            self.bound = int(file.attrs.get("group_bound", 0))
            self.lost = set(file["lost/device"][:].tolist()) if "lost" in file else set()
            self.crossing, self.seconds = int(file.attrs["crossing"]), float(file.attrs["sending_seconds"])
        self.count = len(self.hosts["name"])
        old, last = self.ranks["old_host"], np.cumsum(self.hosts["gpus"])
        new = np.searchsorted(last, self.ranks["new_device"], "right")
        self.new_ranks = sets["needers"]
        # The hosts that hold each parcel, and those that need it.
        self.holding = [frozenset(old[sets["holders"][number]].tolist()) - {-1} for number in self.parcels["holders"]]
        self.needing = [frozenset(new[sets["needers"][number]].tolist()) for number in self.parcels["needers"]]
        self.bytes = self.parcels["bytes"].tolist()
        name = lambda host: self.hosts["switch_group"][host] or self.hosts["name"][host]
        self.group = [name(host) for host in range(self.count)]
        self.nic = np.where(self.hosts["nic"] > 0, self.hosts["nic"], NIC)
        self.disk = np.where(self.hosts["disk_read"] > 0, self.hosts["disk_read"], DISK)

    def rows(self):
        t = self.transfers
        return list(zip(*(t[name].tolist() for name in ("parcel", "from", "to", "begin", "end", "round", "forwards"))))


def check_order(plan):
    """Checks the claim `order`; returns the number of transfers that forward bytes."""
    never = np.iinfo(np.int64).max
    arrival = {}  # (host, parcel) -> the round in which each byte arrives
    for p, (holding, needing) in enumerate(zip(plan.holding, plan.needing)):
        for host in range(plan.count):
            arrival[host, p] = np.full(plan.bytes[p], -1 if host in holding else never)
        require(needing, "parcel", p, "is needed nowhere")
    rows = plan.rows()
    for p, source, target, begin, end, round_, _ in rows:
        element = int(plan.parcels["element"][p])
        require(begin < end and begin % element == 0 and end % element == 0, "a transfer splits an element of parcel", p)
        require((arrival[target, p][begin:end] == never).all(), "bytes of parcel", p, "come into host", target, "twice")
        require((source == STORAGE) == (not plan.holding[p]), "storage is not used for what no host holds")
        arrival[target, p][begin:end] = -1 if source == STORAGE else round_
    for p, source, _, begin, end, round_, forwards in rows:
        if source == STORAGE:
            continue
        require((arrival[source, p][begin:end] < round_).all(), "host", source, "sends bytes of parcel", p, "before it has them")
        require(forwards == (source not in plan.holding[p]), "forwards is wrong in parcel", p)
    for p, needing in enumerate(plan.needing):
        for host in range(plan.count):
            has = (arrival[host, p] != never).all() if host in needing else (arrival[host, p] == never).all() or host in plan.holding[p]
            require(has, "host", host, "lacks bytes of parcel", p, "or gets what it does not need")
    return sum(row[-1] for row in rows)


def check_staging(plan):
    """Checks the claim `staging`; returns whether a host fills more than half of the window."""
    kept = defaultdict(int)  # (host, round) -> buffered bytes
    last = {}  # (host, parcel) -> for each byte that the host forwards, the last round in which it does
    rows = [row for row in plan.rows() if row[1] != STORAGE]
    partners = {}
    for p, source, target, begin, end, round_, forwards in rows:
        kept[target, round_] += end - begin
        require(partners.setdefault(("out", source, round_), target) == target, "host", source, "sends to two hosts at once")
        require(partners.setdefault(("in", target, round_), source) == source, "host", target, "receives from two hosts at once")
        if not forwards:
            kept[source, round_] += end - begin
            continue
        rounds = last.setdefault((source, p), np.full(plan.bytes[p], -1))
        rounds[begin:end] = np.maximum(rounds[begin:end], round_)
    for p, _, target, begin, end, round_, _ in rows:
        if (target, p) not in last:
            continue
        until = last[target, p][begin:end]
        for later in range(round_ + 1, int(until.max()) + 1):
            kept[target, later] += int((until >= later).sum())
    most = [max((n for (host, _), n in kept.items() if host == h), default=0) for h in range(plan.count)]
    require(max(most) <= plan.window, "a host buffers", max(most), "bytes of", plan.window)
    require(most == plan.loads["staging"].tolist(), "staging is", most, "not", plan.loads["staging"].tolist())
    return 2 * max(most) > plan.window


class Ways:
    """All ways to send a byte from the hosts that hold it to those that lack it. It is sent once into a switch group
    without holders, and not into a group with holders. If hosts read it from disk only to send it, it is read once in each
    group that holds and needs it, or once in total if no group of its holders needs it."""

    def __init__(self, plan, holding, needing):
        self.plan, self.holding = plan, holding
        self.missing = sorted(needing - holding)
        self.readers = holding - needing if plan.state == "stores" else frozenset()
        senders = sorted(holding | set(self.missing))
        choices = itertools.product(*([s for s in senders if s != host] for host in self.missing))
        self.sent = {self.count(choice) for choice in choices if self.is_legal(choice)}

    def count(self, choice):
        """How often each host sends the byte, and how often it reads it only to send it."""
        sent = Counter(choice)
        return tuple(sent[h] for h in range(self.plan.count)) + tuple(sent[h] * (h in self.readers) for h in range(self.plan.count))

    def is_legal(self, choice):
        group, source = self.plan.group, dict(zip(self.missing, choice))
        held = {group[host] for host in self.holding}
        entries = Counter(group[to] for to, by in source.items() if group[to] != group[by])
        if any(name in held or n > 1 for name, n in entries.items()):
            return False
        reads = [(group[to], group[by]) for to, by in source.items() if by in self.readers]
        inside, across = Counter(by for to, by in reads if to == by), sum(to != by for to, by in reads)
        if any(n > 1 for n in inside.values()) or across > (0 if held & {group[to] for to in self.missing} else 1):
            return False
        for host in self.missing:  # no cycles
            for _ in range(len(self.missing) + 1):
                host = source.get(host, host)
            if host not in self.holding:
                return False
        return True


def least_seconds(plan, needing_hosts=None):
    """The optimum of the linear program: the minimum time that the busiest NIC or disk is busy."""
    amounts, own = Counter(), np.zeros(plan.count)
    for holding, needing, n in zip(plan.holding, needing_hosts or plan.needing, plan.bytes):
        if holding and needing - holding:
            amounts[holding, needing] += n
        for host in needing:
            own[host] += n if host in holding or not holding else 0
    columns, equal, right = [], [], []
    for (holding, needing), n in amounts.items():
        ways = Ways(plan, holding, needing).sent
        equal += [len(right)] * len(ways)
        columns += ways
        right.append(n)
    disks = plan.disk if plan.state == "stores" else np.full(plan.count, np.inf)
    start = max(own / disks)
    if not columns:
        return start
    # Scale seconds and bytes so that all numbers are near 1.
    unit = sum(right)
    rates = np.concatenate([plan.nic, disks])
    loads = np.array(columns, float).T / rates[:, None] * plan.nic.max()
    upper = np.hstack([loads, -np.ones((2 * plan.count, 1))])
    room = np.concatenate([np.zeros(plan.count), -own / disks]) * plan.nic.max() / unit
    sums = np.zeros((len(right), len(columns) + 1))
    sums[equal, range(len(columns))] = 1
    cost = np.zeros(len(columns) + 1)
    cost[-1] = 1
    found = linprog(cost, upper, room, sums, np.array(right) / unit, method="highs")
    require(found.status == 0, "HiGHS:", found.message)
    return found.fun * unit / plan.nic.max()


def check_sending(plan):
    """Checks the claim `sending`; returns whether bytes are sent, and by how many bytes a host exceeds the optimum."""
    seconds = least_seconds(plan)
    require(abs(seconds - plan.seconds) <= 1e-7 * seconds, "the plan takes", plan.seconds, "s, the linear program", seconds, "s")
    excess = plan.loads["nic_out"] - seconds * plan.nic
    if plan.state == "stores":
        excess = np.maximum(excess, plan.loads["disk_read"] - seconds * plan.disk)
    return seconds > 0, float(excess.max())


def cut_for(plan):
    """The hosts for which blocks are formed, by the rule of tpx-plan(5)."""
    order = sorted((h for h in range(plan.count) if not plan.hosts["lost"][h]),
                   key=lambda h: (plan.hosts["spare"][h], plan.hosts["spare"][h] and -int(plan.hosts["gpus"][h])))
    ranks, room = len(plan.ranks["new_device"]), lambda hosts, size: sum(plan.hosts["gpus"][hosts] // size * size)
    unit = plan.size if room(order, plan.size) >= ranks else 1
    while plan.hosts["spare"][order[-1]] and room(order[:-1], unit) >= ranks:
        order.pop()
    left, behind = ranks, sum(plan.hosts["gpus"][order])
    size = plan.size if max(plan.hosts["gpus"][order]) >= plan.size else 1
    placed, hosts = 0, []
    for host in order:
        behind -= plan.hosts["gpus"][host]
        end = placed + min(plan.hosts["gpus"][host], left)
        whole = end // size * size
        if placed <= whole and left - (whole - placed) <= behind:
            end = whole
        left -= end - placed
        hosts += [host] * int(end > placed)
        placed = end
    return hosts


def hosts_that_may(plan):
    """The hosts on which ranks may be, and the hosts that must get a block: if a block is formed for a spare host, all other
    hosts for which a block is formed."""
    cut = cut_for(plan)
    spares = plan.hosts["spare"][cut].any()
    may = [h for h in range(plan.count) if not plan.hosts["lost"][h] and (spares or not plan.hosts["spare"][h])]
    return may, [h for h in cut if spares and not plan.hosts["spare"][h]]


def assignments(plan):
    """Yields all assignments of blocks to hosts that are compared."""
    sizes = (plan.blocks["end"] - plan.blocks["begin"]).tolist()
    may, must = hosts_that_may(plan)
    for order in itertools.permutations(may, len(sizes)):
        if all(plan.hosts["gpus"][h] >= n for h, n in zip(order, sizes)) and set(must) <= set(order):
            yield order


def needing_with(plan, host_of_rank):
    """The hosts that need each parcel if rank r is on host_of_rank[r]."""
    sets = [frozenset(host_of_rank[rank] for rank in ranks.tolist()) for ranks in plan.new_ranks]
    return [sets[number] for number in plan.parcels["needers"]]


def received(plan, needing_hosts):
    """Bytes that each host receives."""
    bytes_ = np.zeros(plan.count)
    for holding, needing, n in zip(plan.holding, needing_hosts, plan.bytes):
        for host in needing - holding:
            bytes_[host] += n if holding else 0
    return bytes_


def check_time(plan):
    """Checks that no assignment of blocks is faster, for state in memory. Loads are rounded to bytes, so a few more are allowed."""
    sizes = (plan.blocks["end"] - plan.blocks["begin"]).tolist()
    found = max(max(plan.loads["nic_in"] / plan.nic), max(plan.loads["nic_out"] / plan.nic))
    slack = 16 / plan.nic.min()
    for order in assignments(plan):
        needing = needing_with(plan, np.repeat(order, sizes))
        receiving = max(received(plan, needing) / plan.nic)
        if receiving + slack < found and least_seconds(plan, needing) + slack < found:
            raise Wrong(f"the change takes {found} s, with blocks on {order} less than {found - slack} s")


def check_groups(plan):
    """Compares all placements of whole groups if there are at most 5000; returns whether it did."""
    groups = plan.hosts["gpus"] // plan.size
    ranks = len(plan.ranks["new_device"]) // plan.size
    may = [h for h in hosts_that_may(plan)[0] if groups[h]]
    require(plan.bound <= plan.crossing, "the bound", plan.bound, "is above", plan.crossing)
    if len(may) ** ranks > 5000:
        return False
    least = plan.crossing
    for choice in itertools.product(may, repeat=ranks):
        if any(n > groups[h] for h, n in Counter(choice).items()):
            continue
        needing = needing_with(plan, np.repeat(choice, plan.size))
        least = min(least, sum(n * len(needed - held) for held, needed, n in zip(plan.holding, needing, plan.bytes)))
    require(plan.crossing == least, "groups placed freely send", plan.crossing, "bytes; the least is", least)
    return True


def check_placement(plan, options):
    """Checks the claim `placement`; returns counters of what could be checked."""
    if plan.pinned == 4:
        return Counter(groups=1, **{"all groups": check_groups(plan)})
    if "time" in options and plan.state == "memory":
        check_time(plan)
        if plan.pinned == 3:
            return Counter(faster=1, time=1)
    elif plan.pinned == 3:
        return Counter()
    if "time" in options:
        return Counter(time=plan.state == "memory")  # ties depend on sending NICs, too, so check_blocks() does not apply
    return Counter(ties=check_blocks(plan))


def check_blocks(plan):
    sizes = (plan.blocks["end"] - plan.blocks["begin"]).tolist()
    costs = np.zeros((len(sizes), plan.count), np.int64)
    for number, holding, n in zip(plan.parcels["needers"], plan.holding, plan.bytes):
        needed = set(np.searchsorted(plan.blocks["end"], plan.new_ranks[number], "right").tolist())
        for block in needed:
            costs[block] += [n * (host not in holding) for host in range(plan.count)]
    may = hosts_that_may(plan)[0]
    differ = len({plan.nic[h] for h in may}) > 1

    def score(hosts):
        bytes_, seconds = [costs[b, h] for b, h in enumerate(hosts)], [costs[b, h] / plan.nic[h] for b, h in enumerate(hosts)]
        return sum(plan.hosts["spare"][h] for h in hosts), sum(bytes_), max(seconds) if differ else 0

    best, found = min(map(score, assignments(plan))), score(plan.blocks["host"].tolist())
    require(found == best, "the placement has", found, "(spare hosts, bytes, seconds), the best one", best)
    require(plan.crossing == best[1], "crossing is", plan.crossing, "not", best[1])
    return differ and best[1] > 0


def check(tpx, seed):
    """Counters of what was checked in the instance of a seed and its excess in bytes, or a text if a claim is wrong."""
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        options = request(choose, folder)
        done = subprocess.run([tpx, "plan", *options, "-q", "-o", folder / "plan"], capture_output=True, text=True)
        if done.returncode in (2, 3):
            return Counter(impossible=1), 0.0
        try:
            require(done.returncode == 0, done.stderr)
            plan = Plan(folder / "plan")
            counts = Counter(plans=1, forwards=check_order(plan), full=check_staging(plan)) + check_placement(plan, options)
            sends, excess = check_sending(plan)
            return counts + Counter({f"sends, {plan.state}": sends}), excess
        except Wrong as wrong:
            kept = shutil.copytree(folder, Path(tempfile.gettempdir()) / f"plan_laws-{seed}", dirs_exist_ok=True)
            return f"seed {seed}: {wrong}\n  {kept}: tpx plan {' '.join(options)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=HERE.parent / "build/release/cmd/tpx")
    parser.add_argument("--instances", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    counts, excess, seed = Counter(), 0.0, options.seed
    with multiprocessing.Pool() as pool:
        while counts["plans"] < options.instances:
            many = min(1000, 2 * (options.instances - counts["plans"]) + 16)
            for result in pool.imap_unordered(partial(check, str(options.tpx)), range(seed, seed + many), 16):
                if isinstance(result, str):
                    sys.exit(result)
                counts += result[0]
                excess = max(excess, result[1])
            seed += many
    sends = {state: counts[f"sends, {state}"] for state in ("memory", "stores", "shared")}
    text = [
        f"`bench/plan_laws.py`, seeds {options.seed} to {seed - 1}: {counts['plans']:,} plans of random changes "
        f"({counts['impossible']:,} more requests are impossible and were refused).", "",
        "| claim | instances that test it | wrong |", "|---|---|---|",
        f"| no host sends bytes before it has them; each host receives a byte once | {counts['plans']:,}, {counts['forwards']:,} transfers forward bytes | 0 |",
        f"| staging ≤ window, and equal to the number in the plan | {counts['plans']:,}, {counts['full']:,} fill more than half of the window | 0 |",
        f"| NIC and disk loads are the optimum of a linear program (HiGHS) | {sum(sends.values()):,} send bytes: {', '.join(f'{n:,} with state in {state}' for state, n in sends.items())} | 0 |",
        f"| placement: least bytes, ties by the rate of NICs | {counts['ties']:,} with different NICs | 0 |",
        f"| `--objective time`: no placement of blocks is faster | {counts['time']:,}, {counts['faster']:,} with more than the fewest bytes | 0 |",
        f"| `--placement groups`: the bound holds | {counts['groups']:,}, {counts['all groups']:,} compared with all placements: none is better | 0 |", "",
        f"No host sends or reads more than {excess:.1f} bytes above the optimum.",
    ]  # fmt: skip
    print("\n".join(text))
    if options.write:
        import results

        results.put("plan: laws", "\n".join(text))


if __name__ == "__main__":
    main()
