# SPDX-License-Identifier: Apache-2.0
"""Code that the programs of this folder share: paths, and how to run tpx."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(os.environ.get("TPX_FIXTURES", ROOT / "../shared/fixtures"))
SKIPPED = 77
PATIENCE = 1200  # seconds until a tpx that hangs is ended; long, for busy machines

TPX = sys.argv[1] if len(sys.argv) > 1 else "tpx"


def need_fixtures():
    if not FIXTURES.is_dir():
        print(f"skipped: no folder of checkpoints at {FIXTURES}; $TPX_FIXTURES may name one")
        sys.exit(SKIPPED)


def tpx(*words, ranks=1):
    """Runs tpx, with mpirun if `ranks` is more than 1."""
    launch = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launch, TPX, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)


def fixture(folder, name):
    """The path of a checkpoint, and the JSON that describes its content."""
    path = FIXTURES / folder / name
    with open(path / "fixture.json") as file:
        return path / "ckpt", json.load(file)


def in_parallel(jobs):
    """Runs (function, arguments...) jobs on all cores; prints the faults that each returns; returns the exit status."""
    from concurrent.futures import ProcessPoolExecutor

    faults = 0
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for job, future in [(job, pool.submit(*job)) for job in jobs]:
            found = future.result()
            faults += len(found)
            for line in found[:6]:
                print(f"{job[0].__name__}{tuple(map(str, job[1:]))}: {line}")
    print(f"{len(jobs)} jobs, {faults} faults")
    return 1 if faults else 0
