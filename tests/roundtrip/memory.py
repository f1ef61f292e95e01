# SPDX-License-Identifier: Apache-2.0
"""memory.py TPX [TENSORS]: files of many tiny tensors, and of a few tensors in many pieces, whose metadata takes far
more memory than their data. verify and reshard refuse a --memory that is too small and name a sufficient limit, within
which they then stay.
"""
import json
import os
import re
import sys
import tempfile
from pathlib import Path

MEBI = 1 << 20


def write_safetensors(path, tensors, rows=1):
    size = 16 * rows
    header = {f"model.layers.{number}.weight": {"dtype": "F32", "shape": [rows, 4], "data_offsets": [size * number, size * (number + 1)]}
              for number in range(tensors)}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size * tensors)


def run(command, folder):
    """Exit status, standard output, standard error, and the peak of resident memory in bytes."""
    out, err = folder / "stdout", folder / "stderr"
    child = os.fork()
    if child == 0:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        os.execv(command[0], [str(word) for word in command])
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), out.read_text(), err.read_text(), usage.ru_maxrss * 1024


def check(tpx, folder, *words):
    """Runs a command with too little memory, then with the limit that it names."""
    status, _, message, _ = run([tpx, *words, "--memory", "64MiB"], folder)
    found = re.search(r"^tpx: --memory 64MiB is too small for the metadata of \d+ tensors and \d+ pieces; "
                      r"use --memory (\d+)MiB$", message, re.MULTILINE)
    assert status == 1 and found, (words, status, message)
    limit = int(found.group(1)) * MEBI
    status, text, message, peak = run([tpx, *words, "--memory", str(limit)], folder)
    assert status == 0, (words, status, text, message)
    assert peak <= limit, (words, peak, limit)
    assert limit <= 2 * peak, (words, peak, limit)  # not an excessive estimate
    print(f"{' '.join(word.name if isinstance(word, Path) else word for word in words)}: "
          f"{limit // MEBI} MiB would do, {peak / MEBI:.0f} MiB taken")


def main():
    tpx, tensors = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 150_000
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        for name in ("a.safetensors", "b.safetensors"):
            write_safetensors(folder / name, tensors)
        check(tpx, folder, "verify", folder / "a.safetensors")
        check(tpx, folder, "verify", folder / "a.safetensors", folder / "b.safetensors")
        check(tpx, folder, "verify", folder / "a.safetensors", "--json")
        check(tpx, folder, "verify", folder / "a.safetensors", "--write")
        check(tpx, folder, "verify", folder / "a.safetensors")  # compares with the record
        check(tpx, folder, "reshard", folder / "a.safetensors", folder / "one", "--to", "tp=1", "--format", "dcp")
        check(tpx, folder, "reshard", folder / "one", folder / "many", "--to", "fsdp=4")
        write_safetensors(folder / "few.safetensors", 40, 512)
        check(tpx, folder, "reshard", folder / "few.safetensors", folder / "pieces", "--to", "fsdp=512", "--format", "dcp")


if __name__ == "__main__":
    main()
