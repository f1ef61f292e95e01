#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""device.py [--build DIR] [--scratch DIR] [--gib N] [--seconds S] [--write]

On a GPU: kernels that pack, unpack and cast, compared with cudaMemcpy inside the device; copies between host and device, compared
with the PCIe link; two processes on one GPU through CUDA IPC; the GPU's exchange with itself by NCCL; a restart that takes N GiB of state (default 20) from
`tpx hold --device cuda`, which reads it from disk or from what the former trainer exported to the GPU, compared with saving to and
loading from disk; and state that two processes, which act as hosts, move between each other: by MPI, and by NCCL if there are two
GPUs. compute-sanitizer, if it is installed, checks the kernels. The GPU needs four times N GiB. Run with a Python that has torch with CUDA (scripts/interop-venv.sh)
after building all targets.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from results import put
from timing import cool, machine, output, remove, run

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))
GT_PER_LANE = {1: 2.5e9 * 0.8, 2: 5e9 * 0.8, 3: 8e9 * 128 / 130, 4: 16e9 * 128 / 130, 5: 32e9 * 128 / 130, 6: 64e9 * 242 / 256}  # bits/s
TENSORS = 32


def link_rate():
    """Bytes per second of the PCIe link of GPU 0, as it is now; none: nvidia-smi does not say."""
    query = ["nvidia-smi", "--id=0", "--query-gpu=pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    try:
        generation, width = (int(word) for word in done.stdout.split(","))
        return GT_PER_LANE[generation] * width / 8
    except (ValueError, KeyError):
        return None


def kernel_rows(build, seconds):
    found = json.loads(output([build / "tests/gpu/kernel_rates", str(seconds)]))
    link = link_rate()
    rows = [(f"{name}, against device memcpy", rate, found["memcpy"], 0.85) for name, rate in found["kernels"].items()]
    rows += [(f"{name}, against the PCIe link", found[key], link, 0.9) for name, key in (("host to device", "to_device"), ("device to host", "from_device"))]
    if found["nccl_to_itself"]:
        rows.append(("a GPU to itself by NCCL, against device memcpy", 2 * found["nccl_to_itself"], found["memcpy"], None))
    return rows, found["memcpy"]


def sanitizer_text(build):
    """What compute-sanitizer says about the kernels; exits if it finds errors."""
    if not shutil.which("compute-sanitizer"):
        return "compute-sanitizer is not installed here."
    lines = output(["compute-sanitizer", "--error-exitcode", "1", build / "tests/gpu/kernel_rates", "0.01"]).splitlines()
    return f"compute-sanitizer on the kernels: {next(line.lstrip('= ') for line in lines if 'ERROR SUMMARY' in line)}."


def ipc_row(tpx, memcpy, folder):
    words = ["mpirun", "-n", "2", tpx, "profile", "hardware", "--skip", "memory", "--skip", "disk", "--skip", "links", "--seconds", "5"]
    output([*words, "-o", folder / "two.toml"])
    text = tomllib.loads((folder / "two.toml").read_text())

    def find(value):
        if isinstance(value, dict):
            return value.get("gpu_ipc") or next(filter(None, map(find, value.values())), None)
        return next(filter(None, map(find, value)), None) if isinstance(value, list) else None

    rate = find(text)
    return ("two processes through CUDA IPC, against device memcpy", 2 * rate[0], memcpy, None) if rate else None


def in_process(what, *words):
    """Seconds of a step in a separate Python process, without its start."""
    done = subprocess.run([sys.executable, __file__, "--step", what, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{what}: {done.stderr}")
    return float(done.stdout)


def step(what, folder, gib):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemWriter

    import tpx_handover

    rows = int(float(gib) * 2**30) // TENSORS // 2 // 8192
    state = {f"layers.{k}.weight": torch.ones(rows, 8192, dtype=torch.bfloat16, device="cuda") for k in range(TENSORS)}
    torch.cuda.synchronize()
    started = time.perf_counter()
    if what == "save":
        dcp.save(state, storage_writer=FileSystemWriter(folder, sync_files=True), no_dist=True)
    elif what == "load":
        dcp.load(state, checkpoint_id=folder, no_dist=True)
    elif what == "export":
        tpx_handover.export(state, "live", 0, 1, 1, device=torch.device("cuda", 0))
    else:
        tpx_handover.attach(folder, 0).load(state)
    torch.cuda.synchronize()
    print(time.perf_counter() - started)


def restart(tpx, folder, gib, repeats):
    saved, seconds = folder / "saved", {}
    for _ in range(repeats):
        remove(saved)
        steps = {"save": in_process("save", saved, gib), "load, warm": in_process("load", saved, gib)}
        cool(saved)
        steps["load, cold"] = in_process("load", saved, gib)
        on_gpu = ["--to", "fsdp=1", "--device", "cuda", "--quiet"]
        steps["tpx hold --device cuda"] = run([tpx, "hold", saved, "--name", "device", *on_gpu])
        steps["attach and copy"] = in_process("attach", "device", gib)
        run([tpx, "hold", "--name", "live", "--empty", "--quiet"])
        steps["export to the GPU"] = in_process("export", "", gib)
        steps["tpx hold hold:live --device cuda"] = run([tpx, "hold", "hold:live", "--name", "next", *on_gpu])
        run([tpx, "hold", "--release", "live"])
        steps["attach to it and copy"] = in_process("attach", "next", gib)
        for name, value in steps.items():
            seconds.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in seconds.items()}


def host_rows(tpx, gib):
    """Table rows for state that moves between two hosts, one for each transport."""
    words = ["sh", HERE.parent / "tests/gpu/real_hosts.sh", tpx, HERE.parent / "testdata", str(gib / 4)]
    moved = json.loads(output(words).splitlines()[-1])
    return [f"| {one['transport']} | {one['bytes'] / 1e9:.2f} | {one['rounds']} | {one['seconds']:.2f} |" for one in moved]


def main():
    if sys.argv[1:2] == ["--step"]:
        return step(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build/release")
    parser.add_argument("--scratch")
    parser.add_argument("--gib", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    tpx = options.build / "cmd/tpx"
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        rows, memcpy = kernel_rows(options.build, options.seconds)
        sanitized = sanitizer_text(options.build)
        rows.append(ipc_row(tpx, memcpy, Path(folder)))
        seconds = restart(tpx, Path(folder), options.gib, options.repeats)
        hosts = host_rows(tpx, options.gib)
        place = machine(folder)
    gpu = output(["nvidia-smi", "--id=0", "--query-gpu=name", "--format=csv,noheader"]).strip()
    lines = [f"`bench/device.py` on {gpu}, {place}; bytes read and written inside the device:", "", "| what | GB/s | of | share | wanted |", "|---|---|---|---|---|"]
    for name, rate, of, wanted in filter(None, rows):
        share = f"{of / 1e9:.1f} | {100 * rate / of:.0f} %" if of else "unknown | "
        lines.append(f"| {name} | {rate / 1e9:.1f} | {share} | {f'{100 * wanted:.0f} %' if wanted else ''} |")
    lines += ["", sanitized, "", f"A restart with {options.gib:g} GiB of state, median of {options.repeats}:", "", "| step | seconds |", "|---|---|"]
    lines += [f"| {name} | {value:.2f} |" for name, value in seconds.items()]
    lines += ["", f"`tpx hold` of {options.gib / 4:g} GiB by two processes that act as hosts and swap their ranks of fsdp=2:", ""]
    lines += ["| transport | GB between hosts | rounds | seconds |", "|---|---|---|---|", *hosts]
    text = "\n".join(lines)
    print(text)
    if options.write:
        put("device memory", text)


if __name__ == "__main__":
    main()
