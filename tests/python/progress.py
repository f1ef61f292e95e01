# SPDX-License-Identifier: Apache-2.0
"""progress.py SLOW_WRITES: what a callback learns of a run that takes seconds, and what is left of one that is interrupted,
in the current folder."""
import os
import pathlib
import signal
import struct
import sys
import threading

import tpx

header = b'{"w":{"dtype":"F32","shape":[2000,1000],"data_offsets":[0,8000000]}}'
pathlib.Path("slow").mkdir()
pathlib.Path("slow/model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8000000))
os.environ.update(LD_PRELOAD=sys.argv[1], SLOW_WRITES_MS="1500")
options = {"to": "fsdp=4", "format": "dcp", "threads": 1}

calls = []
tpx.reshard("slow", "out", progress=calls.append, **options)
assert len(calls) >= 3, calls
assert all(before.bytes_done <= after.bytes_done for before, after in zip(calls, calls[1:])), calls
assert calls[-1].bytes_done >= 8000000, calls

threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    tpx.reshard("slow", "two", **options)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("not interrupted")
assert not pathlib.Path("two").exists() and list(pathlib.Path().glob("two.partial-*"))
os.environ["SLOW_WRITES_MS"] = "0"
assert tpx.reshard("slow", "two", **options)["bytes_kept"] > 0
