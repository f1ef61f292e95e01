# SPDX-License-Identifier: Apache-2.0
"""DCP checkpoints that tpx writes from Hugging Face checkpoints with torchtitan's names have the names, shapes and
values that torchtitan's state-dict adapters give the same tensors, and convert back to the same Hugging Face
checkpoint. testdata/titan contains the output of the adapters, a file for each model and version, which
testdata/make/titan.py wrote with torchtitan's own code. Altered copies of these files must be detected."""
import json
import tempfile
from pathlib import Path

from megatron_bridge import described, differences, run, values

DATA = Path(__file__).resolve().parents[2] / "testdata/titan"


def loaded(folder):
    """The tensors of a DCP checkpoint, whole."""
    import torch
    from torch.distributed.checkpoint import FileSystemReader, load

    reader = FileSystemReader(folder)
    stored = {name: info for name, info in reader.read_metadata().state_dict_metadata.items() if hasattr(info, "size")}
    made = {name: torch.empty(info.size, dtype=info.properties.dtype) for name, info in stored.items()}
    load(made, storage_reader=reader, no_dist=True)
    return {name: value.numpy() for name, value in made.items()}


def compared(table, found):
    """Differences between the tensors that tpx wrote and those of torchtitan's adapter."""
    rows = table["titan"]
    faults = [f"{name}: torchtitan has no such tensor" for name in sorted(found.keys() - rows.keys())]
    faults += [f"{name}: missing" for name in sorted(rows.keys() - found.keys())]
    for name in sorted(rows.keys() & found.keys()):
        if described(found[name]) != rows[name]:
            faults.append(f"{name}: {described(found[name])}, torchtitan has {rows[name]}")
    return faults


def check(tpx, table, folder, layouts=("fsdp=2", "tp=2,fsdp=2")):
    """Faults, and how many tensors were compared."""
    from safetensors.numpy import save_file

    source = Path(folder, "hf")
    source.mkdir()
    (source / "config.json").write_text(json.dumps(table["config"]))
    tensors = {name: values(name, shape) for name, shape in table["hf"].items()}
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    faults, count = [], 0
    new = ["--set", f"torchtitan_version={table['version'].rpartition('.')[0]}"] if table["version"] >= "0.3" else []
    for layout in layouts:
        there, back = Path(folder, f"there-{layout}"), Path(folder, f"back-{layout}")
        failed = run(tpx, "reshard", source, there, "--to", layout, "--format", "dcp", "--dialect", "titan", "--quiet", *new)
        if not failed:
            found = loaded(there)
            count += len(found)
            failed = compared(table, found)
        failed = failed or run(tpx, "reshard", there, back, "--to", "tp=1", "--format", "safetensors", "--quiet")
        failed = failed or differences(tensors, back)
        faults += [f"{layout}: {line}" for line in failed]
    return faults, count


def blind(tpx, table):
    """Altered tables that are not detected."""
    name, row = next((name, row) for name, row in table["titan"].items() if name.endswith("wk.weight"))
    others = {
        "another value": {**table["titan"], name: row[:-1] + "?"},
        "a missing name": {other: row for other, row in table["titan"].items() if other != name},
        "one tensor more": {**table["titan"], "more": row},
    }
    faults = []
    for what, rows in others.items():
        with tempfile.TemporaryDirectory() as folder:
            if not check(tpx, {**table, "titan": rows}, folder, ("fsdp=2",))[0]:
                faults.append(f"the comparison does not see {what}")
    return faults


def main(tpx):
    tables = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
    failed = total = 0
    for name, table in tables.items():
        with tempfile.TemporaryDirectory() as folder:
            faults, count = check(tpx, table, folder)
        failed += bool(faults)
        total += count
        print(f"{'FAIL' if faults else 'ok'}: {name}, {count} tensors ({table['torchtitan']})")
        for line in faults[:8]:
            print(f"  {line}")
    faults = blind(tpx, tables["llama3"])
    print("\n".join([*faults, f"{len(tables)} models, {total} tensors"]))
    return 1 if failed or faults or not tables else 0
