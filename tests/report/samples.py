# SPDX-License-Identifier: Apache-2.0
"""Plans as tpx plan --json prints them, made up but consistent: the bytes of flows, hosts and totals agree."""
import random

NIC, DISK_READ, DISK_WRITE, MEMORY = 25e9, 5e9, 2e9, 10e9


def layout(text):
    """The object that --json has for a layout."""
    given = dict(word.split("=") for word in text.split(","))
    degree = {key: int(given.get(key, 1)) for key in ("tp", "pp", "dp", "cp", "ep", "vpp", "fsdp")}
    if "fsdp" in given and "dp" not in given:
        degree["dp"] = degree["fsdp"] * int(given.get("hsdp", 1))
    ranks = degree["tp"] * degree["pp"] * degree["dp"] * degree["cp"]
    return {"text": text, "ranks": ranks, **degree, "etp": int(given.get("etp", degree["tp"])),
            "hsdp": degree["dp"] // degree["fsdp"], "fsdp_dim": 0, "first": None, "last": None}


def seats_in_order(ranks, gpus):
    return [[rank // gpus, rank % gpus] for rank in range(ranks)]


def certificate(crossing, sender, sent):
    return {"between_hosts": crossing, "between_hosts_bound": crossing, "minimal": True, "placement": "optimal",
            "sending": {"hosts": [sender] if sent else [], "bytes": sent, "seconds": sent / NIC}}


def resources(hosts, disks=False):
    """One line for each resource: its busiest host. Disks do not limit a change between memories."""
    lines = []
    for name, key, rate in (("disk read", "disk_read", DISK_READ), ("disk write", "disk_write", DISK_WRITE),
                            ("NIC in", "nic_in", NIC), ("NIC out", "nic_out", NIC), ("memory", "copied", MEMORY)):
        busiest = max(range(len(hosts)), key=lambda h: hosts[h][key])
        load = hosts[busiest][key]
        lines.append({"resource": name, "seconds": load / rate, "host": busiest, "bytes": load, "rate": rate,
                      "assumed": name != "NIC in", "counts": disks or not name.startswith("disk")})
    return lines


def plan(model, before, after, gpus, host_count, weights, senders, seed=0, names="host{}", lost=(), spare=(),
         from_storage=False, permute=False):
    """`weights` bytes of state go from layout to layout; each host receives from `senders` others."""
    draw = random.Random(seed)
    old, new = layout(before), layout(after)
    old_ranks = [None if seat[0] in lost else seat for seat in seats_in_order(old["ranks"], gpus)]
    taking = [h for h in range(host_count) if h not in lost]
    order = taking[:(new["ranks"] + gpus - 1) // gpus]
    if permute:
        draw.shuffle(order)
    new_ranks = [[order[rank // gpus], rank % gpus] for rank in range(new["ranks"])]
    old_bytes, new_bytes = (
        [weights // (side["tp"] * side["pp"] * side["fsdp"]) + draw.randrange(4096) for _ in range(side["ranks"])]
        for side in (old, new))
    hosts = [{"name": names.format(h), "gpus": gpus, "switch": "", "lost": h in lost, "spare": h in spare, "nic_in": 0,
              "nic_out": 0, "disk_read": 0, "disk_write": 0, "copied": 0} for h in range(host_count)]
    holding = sorted({seat[0] for seat in old_ranks if seat})
    flows = {}
    for to in sorted({seat[0] for seat in new_ranks}):
        per_host = sum(size for seat, size in zip(new_ranks, new_bytes) if seat[0] == to)
        others = [h for h in holding if h != to]
        for sender in draw.sample(others, min(senders, len(others))):
            flows[sender, to] = per_host // (senders * draw.randrange(2, 9)) + draw.randrange(1000)
        if from_storage:
            flows[None, to] = per_host // 7
    total = {"needed": sum(new_bytes), "kept": 0, "local": 0, "same_host": 0,
             "other_host": sum(size for (sender, _), size in flows.items() if sender is not None),
             "storage": sum(size for (sender, _), size in flows.items() if sender is None)}
    rest = total["needed"] - total["other_host"] - total["storage"]
    total["local"], total["same_host"] = rest // 5, rest // 4
    total["kept"] = rest - total["local"] - total["same_host"]
    for (sender, to), size in flows.items():
        hosts[to]["nic_in"] += size
        if sender is not None:
            hosts[sender]["nic_out"] += size
    for host in hosts:
        host["copied"] = (total["local"] + total["same_host"]) // host_count if not host["lost"] else 0
    roles = {}
    left = dict(total)
    for role, part in (("weight", 7), ("master", 3), ("exp_avg", 2), ("exp_avg_sq", 1)):
        roles[role] = {key: left[key] // part if part > 1 else left[key] for key in total if key != "needed"}
        for key, value in roles[role].items():
            left[key] -= value
        roles[role] = {"needed": sum(roles[role].values()), **roles[role]}
    busiest = max(hosts, key=lambda host: host["nic_out"])
    lines = resources(hosts)
    binding = max(lines, key=lambda each: each["seconds"])
    in_order = sorted(flows.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0, item[0][1]))
    return {"model": model, "from": {"layout": old}, "to": {"layout": new}, "state": "memory",
            "parcels": 4 * len(flows), "total": total, "roles": roles, "hosts": hosts,
            "old_ranks": old_ranks, "new_ranks": new_ranks, "old_bytes": old_bytes, "new_bytes": new_bytes,
            "flows": [{"from": sender, "to": to, "bytes": size} for (sender, to), size in in_order],
            "transfers": 4 * len(flows), "rounds": 2 * senders,
            "certificate": certificate(total["other_host"] + total["storage"], busiest["name"], busiest["nic_out"]),
            "resources": lines, "seconds": binding["seconds"], "binding": binding["resource"], "notes": []}


def small():
    return plan("gpt3-6.7b", "tp=4,pp=2", "tp=4,pp=4", 4, 4, 94_000_000_000, 1)


def medium():
    return plan("llama3-70b", "tp=8,pp=4,dp=4", "tp=8,pp=2,dp=8", 8, 16, 990_000_000_000, 3, permute=True)


def one_host():
    result = plan("gpt3-1.3b", "tp=2,pp=2,dp=2", "tp=4,dp=2", 8, 1, 18_000_000_000, 0)
    result["hosts"][0]["name"] = "localhost"
    result["rounds"] = 0
    return result


def broken():
    """Lost hosts, ranks that are on no host, a store, and difficult names."""
    evil = ["</script><script>document.documentElement.dataset.fault='script'</script>", "<img src=x onerror=alert(1)>",
            "new\nline\x07\u202egpj.exe", "名前 ホスト", "\"quoted\\\" & 'more'", "a" * 300, "", "{{data}}"]
    result = plan("</title><h1>Model & \u2028Sons", "tp=2,pp=4,dp=4", "tp=2,pp=2,dp=6", 4, 8, 400_000_000_000, 2,
                  lost=(3,), spare=(7,), from_storage=True)
    for host, name in zip(result["hosts"], evil):
        host["name"] = name
    result["hosts"][2]["switch"] = "<b>rack</b>"
    result["certificate"]["sending"]["hosts"] = [evil[1]]
    result["certificate"]["placement"] = "pinned"
    result["roles"] = {"a/b~c<i>": result["roles"].pop("weight"), **result["roles"]}
    result["notes"] = ["tensor '</script>': written as f32 <!-- <script>", "a second note"]
    return result


def checkpoint():
    """A checkpoint with an unknown layout in the stores of hosts."""
    result = plan("", "tp=1,dp=3", "fsdp=8", 4, 3, 26_000_000_000, 2)
    del result["model"]
    result["from"] = {"format": "safetensors", "dialect": "hf", "layout": None}
    result["to"] = {"format": "dcp", "dialect": "titan", "layout": result["to"]["layout"]}
    result["old_ranks"] = [[host, None] for host in range(3)]
    result.update(read=26_000_000_000, write=26_000_004_096, moves=2310, pieces=1200, files=8, state="stores")
    result["certificate"].update(covered=True, elements=13_000_000_000, minimal=False)
    result["certificate"]["between_hosts_bound"] -= 1
    for host in result["hosts"]:
        host["disk_read"], host["disk_write"] = host["nic_out"], host["nic_in"] * 2
    result["resources"] = resources(result["hosts"], disks=True)
    result["seconds"] = max(line["seconds"] for line in result["resources"])
    result["binding"] = max(result["resources"], key=lambda line: line["seconds"])["resource"]
    return {"checkpoint": "/data/runs/llama-13b/iter_0001000", **result}


def large():
    return plan("moe-1t", "tp=8,pp=16,dp=128,ep=64,etp=1,zero=1", "tp=8,pp=12,dp=128,ep=64,etp=1,zero=1", 8, 2048,
                14_000_000_000_000, 12, names="n{}", permute=True)


SAMPLES = {"small": small, "medium": medium, "one_host": one_host, "broken": broken, "checkpoint": checkpoint,
           "large": large}
