# SPDX-License-Identifier: Apache-2.0
"""defects.py TPX SCRATCH: regression tests of `tpx plan`, one function and one line of output for each former defect."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import h5py

TPX, SCRATCH = sys.argv[1], Path(sys.argv[2])


def tpx(*words, code=0, **environment):
    """(stdout, stderr) of `tpx plan WORDS`, which must end with the exit status `code`."""
    done = subprocess.run([TPX, "plan", *map(str, words)], capture_output=True, text=True, cwd=SCRATCH, env={**os.environ, **environment})
    assert done.returncode == code, f"exit {done.returncode}, not {code}: tpx plan {' '.join(map(str, words))}\n{done.stderr}"
    return done.stdout, done.stderr


def plan(*words, **environment):
    return json.loads(tpx(*words, "--json", **environment)[0])


def hosts(name, *rows):
    """A file of hosts: (name, GPUs, keys)."""
    path = SCRATCH / f"{name}.toml"
    path.write_text("".join(f'[[hosts]]\nname = "{host}"\ngpus = {gpus}\n{keys}\n' for host, gpus, keys in rows))
    return path


def resource(made, name):
    return next(row for row in made["resources"] if row["resource"] == name)


def degree(layout, key):
    return next((int(pair.partition("=")[2]) for pair in layout.split(",") if pair.startswith(key + "=")), 1)


def p1_unknown_switches():
    """Of two hosts that hold the state, each sends in proportion to its NIC, whichever switches are known."""
    for switch in ("", 'switch = "a"'):
        fast_keys = 'nic = "10 GB/s"\n' + switch
        file = hosts("p1", ("slow", 1, 'nic = "1 GB/s"'), ("fast", 1, fast_keys), ("new", 1, 'nic = "10 GB/s"'))
        made = plan("--model", "gpt3-1.3b", "--from", "dp=2", "--to", "dp=3", "--hosts", file)
        slow, fast = (made["hosts"][k]["nic_out"] for k in (0, 1))
        assert abs(slow * 10 - fast) < fast / 100, (switch, slow, fast)


def p2_disk_reads():
    """A store reads bytes once that it sends to two hosts and needs itself."""
    file = hosts("p2", ("h[0-2]", 1, 'nic = "100 GB/s"\ndisk_read = "1 GB/s"\ndisk_write = "1 GB/s"'))
    made = plan("--model", "gpt3-1.3b", "--from", "dp=1", "--to", "dp=3", "--hosts", file, "--state-in", "stores")
    assert made["hosts"][0]["disk_read"] == made["old_bytes"][0], made["hosts"][0]
    assert abs(resource(made, "disk read")["seconds"] - made["old_bytes"][0] / 1e9) < 1e-6


def p3_device_memory():
    """Host memory does not limit state in device memory; known rates of devices count, and cores add up."""
    change = ("--model", "llama3-8b", "--from", "tp=8", "--to", "tp=4,dp=2", "--hosts")
    made = plan(*change, "1x8")
    assert made["seconds"] == 0 and not resource(made, "memory")["counts"], made["resources"]
    assert "time   unknown" in tpx(*change, "1x8")[0]
    file = hosts("p3", ("gpu", 8, 'device_copy = "1 TB/s"\ndevice_link = "100 GB/s"'))
    made = plan(*change, file)
    link = resource(made, "device link")
    assert link["seconds"] > 0.1 and not link["assumed"], link
    shared = plan("--model", "llama3-8b", "--from", "tp=8", "--to", "tp=4,dp=2", "--hosts", "1x8", "--state-in", "shared")
    assert resource(shared, "memory")["rate"] == 8e10, resource(shared, "memory")


def p4_shared_storage():
    """State on shared storage must be read even if nothing changes; it is not mixed with other iterations in memory."""
    same = plan("--model", "llama3-8b", "--from", "tp=8", "--to", "tp=8", "--hosts", "1x8", "--state-in", "shared")
    read = resource(same, "disk read")["bytes"]
    assert 0.99 * sum(same["old_bytes"]) < read <= sum(same["old_bytes"]), same["resources"]  # copies are read once
    lost = ("--model", "llama3-8b", "--from", "tp=8,pp=2", "--to", "tp=8", "--hosts", "2x8", "--lost", "host0", "--state-in", "shared")
    assert "must be of the same training iteration" in tpx(*lost)[1]
    assert "iteration" in tpx(*lost, "--iteration", 5, "--storage-iteration", 4, code=1)[1]


def p5_whole_groups():
    """On unequal hosts, each TP group stays on one host, also in layouts of --to auto; a single device can be lost."""
    def hosts_of_groups(made, tp):
        on = [host for host, _ in made["new_ranks"]]
        return [set(on[k : k + tp]) for k in range(0, len(on), tp)]

    for name, sizes, old, new in (("p5a", (4, 8), "tp=4", "tp=8"), ("p5b", (6, 8, 8), "tp=4,dp=5", "tp=4,dp=5"), ("p5c", (7, 8), "tp=4,dp=3", "tp=4,dp=3")):
        file = hosts(name, *((f"h{k}", size, "") for k, size in enumerate(sizes)))
        made = plan("--model", "llama3-8b", "--from", old, "--to", new, "--hosts", file)
        assert all(len(group) == 1 for group in hosts_of_groups(made, int(new[3]))), (name, made["new_ranks"])
    file = hosts("p5d", ("h0", 4, ""), ("h1", 4, ""))
    for row in plan("--model", "llama3-8b", "--from", "tp=4,dp=2", "--to", "auto", "--hosts", file)["candidates"]:
        assert degree(row["layout"], "tp") <= 4, row["layout"]
    made = plan("--model", "llama3-8b", "--from", "tp=4,dp=2", "--to", "tp=2,dp=3", "--hosts", "2x4", "--lost", "host1:2")
    assert [1, 2] not in made["new_ranks"]


def p6_ties():
    """Of idle hosts that would receive equally many bytes, the faster one is chosen."""
    file = hosts("p6", ("old", 1, 'nic = "50 GB/s"'), ("slow", 1, 'nic = "1 GB/s"'), ("fast", 1, 'nic = "50 GB/s"'))
    made = plan("--model", "gpt3-1.3b", "--from", "dp=1", "--to", "dp=2", "--hosts", file)
    assert sorted(host for host, _ in made["new_ranks"]) == [0, 2], made["new_ranks"]


def p7_check():
    """--check refuses a plan of another request, and checks the needs of all ranks."""
    change = ("--model", "llama3-8b", "--from", "tp=4,pp=2", "--to", "tp=4,dp=18", "--hosts", "18x4")
    tpx(*change, "--output", "p7.plan")
    tpx("--check", "p7.plan", *change)
    for other in (("--model", "llama3-70b", *change[2:]), (*change[:3], "tp=8", *change[4:]), (*change[:-1], "9x8")):
        tpx("--check", "p7.plan", *other, code=3)
    checked = json.loads(tpx("--check", "p7.plan", "--json")[0])
    assert checked["ranks"] == checked["of_ranks"] == 72, checked


def p8_relays():
    """A host forwards only bytes that it received in an earlier round, and no number of rounds is called the least."""
    for number, (model, old, new, where) in enumerate((("gpt3-6.7b", "tp=4,pp=2", "dp=32", "8x4"), ("llama3-8b", "tp=8", "tp=4,pp=2,dp=4", "8x4"))):
        file = f"p8-{number}.plan"
        text = tpx("--model", model, "--from", old, "--to", new, "--hosts", where, "--output", file)[0]
        assert not any("rounds" in line and ("least" in line or "fewe" in line) for line in text.splitlines()), text
        with h5py.File(SCRATCH / file) as made:
            sent = {key: made["transfers"][key][:].tolist() for key in ("parcel", "from", "to", "begin", "end", "round", "forwards")}
        arrived, forwarded = {}, 0
        for parcel, source, to, begin, end, turn, forwards in sorted(zip(*sent.values()), key=lambda row: row[5]):
            if forwards:
                forwarded += 1
                at = begin
                for first, last, when in sorted(arrived[parcel, source]):
                    if when < turn and first <= at:
                        at = max(at, last)
                assert at >= end, (parcel, source, begin, end, turn)
            arrived.setdefault((parcel, to), []).append((begin, end, turn))
        assert forwarded > 100, forwarded


def p9_words():
    """--pin claims no minimum, bounds are described as those for blocks, and storage is not `between hosts`."""
    pinned = ("--model", "llama3-8b", "--from", "tp=4,dp=2", "--to", "pp=2,tp=4", "--hosts", "2x4", "--pin")
    assert "for this order of ranks" in tpx(*pinned)[0]
    assert plan(*pinned)["certificate"]["minimal_for"] == "this order of ranks"
    free = tpx("--model", "llama3-8b", "--from", "tp=4,dp=2", "--to", "tp=4,dp=2", "--hosts", "2x4")[0]
    assert "for blocks of ranks" in free and "blocks change hosts" not in free
    lost = tpx("--model", "llama3-8b", "--from", "tp=8,pp=2", "--to", "tp=8", "--hosts", "2x8", "--lost", "host0", "--state-in", "shared")[0]
    assert "0 B between hosts and 56.2 GB from storage" in lost, lost


def p10_launchers():
    """The launch script binds ranks to GPUs, not cores; Slurm's GPUs per node are the GPUs of each host."""
    tpx("--model", "llama3-8b", "--from", "tp=4,dp=2", "--to", "tp=4,dp=2", "--hosts", "2x4", "--launch", "p10.sh")
    script = (SCRATCH / "p10.sh").read_text()
    assert "CUDA_VISIBLE_DEVICES" in script and "torchrun" in script and "slot=" not in script
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[0-3]", "SLURM_TASKS_PER_NODE": "1(x4)", "SLURM_GPUS_PER_NODE": "8"}
    made = plan("--model", "llama3-8b", "--from", "tp=8", "--to", "tp=8,dp=4", "--hosts", "slurm", **slurm)
    assert [host["gpus"] for host in made["hosts"]] == [8] * 4


def p11_auto():
    """--to auto takes seconds, omits layouts that fit no device, has no dominated Pareto row, and explains its
    times."""
    start = time.monotonic()
    out, notes = tpx("--model", "llama3-70b", "--from", "tp=8,pp=2,dp=3", "--to", "auto", "--hosts", "6x8", "--pareto", "--json")
    made = json.loads(out)
    assert time.monotonic() - start < 60
    assert "not fitted" in notes and made["step_times"] == "estimated", notes
    assert made["left_out"]["layouts"] > 0 and not any(row["layout"] == "dp=48" for row in made["candidates"])
    rows = [(row["between_hosts"], row["step_seconds"]) for row in made["candidates"]]
    for row in rows:
        assert not any(other != row and other[0] <= row[0] and other[1] <= row[1] for other in rows), rows


def p12_interface():
    """Schemas have unique names, layouts are complete, lists name ranks, transfers end at element boundaries, errors
    are clear."""
    change = ("--model", "llama3-8b", "--from", "tp=8", "--to", "tp=4,dp=6,zero=1", "--hosts", "3x8")
    made = plan(*change)
    listed = json.loads(tpx(*change, "--list", "--json")[0])
    assert made["schema"] != listed["schema"] and {"zero", "order", "stages"} <= made["to"]["layout"].keys()
    assert listed["transfers"] and "rank" in json.dumps(listed["transfers"][0]), listed["transfers"][:1]
    tpx(*change, "--output", "p12.plan")
    with h5py.File(SCRATCH / "p12.plan") as file:
        element = file["parcels/element"][:][file["transfers/parcel"][:]].astype("u8")
        assert not (file["transfers/begin"][:] % element).any() and not (file["transfers/end"][:] % element).any()
    assert "NxG" in tpx(*change[:-1], "0x8", code=2)[1]
    notes = tpx("--model", "llama3-8b", "--from", "tp=8,dp=4", "--to", "tp=8,dp=3", "--hosts", "3x8", "--state-in", "shared")[1]
    assert "read from shared storage" in notes


DEFECTS = (
    p1_unknown_switches, p2_disk_reads, p3_device_memory, p4_shared_storage, p5_whole_groups, p6_ties,
    p7_check, p8_relays, p9_words, p10_launchers, p11_auto, p12_interface,
)  # fmt: skip
wrong = 0
for defect in DEFECTS:
    try:
        defect()
        print(f"{defect.__name__}: right")
    except Exception as error:
        wrong += 1
        print(f"{defect.__name__}: WRONG, {type(error).__name__} {str(error)[:600]}")
sys.exit(wrong > 0)
