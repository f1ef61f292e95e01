# SPDX-License-Identifier: Apache-2.0
"""progress.py SLOW_WRITES: tests the callbacks of a run that takes seconds, the remains of an interrupted run, and logs
whose reader ends, in the current folder."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

import tpx

# 16 tensors of 1 MB, in 64 pieces, each of which takes some time to write.
tensors = {f"w{i}": {"dtype": "F32", "shape": [500, 500], "data_offsets": [i * 1000000, (i + 1) * 1000000]} for i in range(16)}
header = json.dumps(tensors).encode()
pathlib.Path("slow").mkdir()
pathlib.Path("slow/model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16000000))
os.environ.update(LD_PRELOAD=sys.argv[1], SLOW_WRITES_MS="100")
options = {"to": "fsdp=4", "format": "dcp", "threads": 1}


def test_progress():
    calls = []
    done = tpx.reshard("slow", "out", progress=calls.append, **options)
    assert done["written"]
    assert any(0 < call.bytes_done < call.bytes for call in calls), calls
    assert len({call.bytes for call in calls}) == 1, calls
    assert all(before.bytes_done <= after.bytes_done for before, after in zip(calls, calls[1:])), calls
    assert calls[-1].bytes_done == calls[-1].bytes >= 16000000, calls


def has_journal():
    return any(path.stat().st_size for path in pathlib.Path().glob("two.partial-*/.tpx/*") if path.is_file())


def interrupt_at_journal():
    """Interrupts this program as Ctrl-C does, once the run has recorded work."""
    for _ in range(600):
        if has_journal():
            break
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def test_interruption():
    thread = threading.Thread(target=interrupt_at_journal)
    thread.start()
    try:
        tpx.reshard("slow", "two", **options)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("not interrupted")
    thread.join()
    assert has_journal() and not pathlib.Path("two").exists()
    os.environ["SLOW_WRITES_MS"] = "0"
    assert tpx.reshard("slow", "two", **options)["bytes_kept"] > 0
    os.environ["SLOW_WRITES_MS"] = "100"


def test_reader_that_ends():
    """A run continues if the reader of its log ends, and a reader gets all events, up to the end of the run."""
    os.mkfifo("log")
    for reader, output in ((["head", "-n", "1", "log"], "head"), (["cat", "log"], "cat")):
        with subprocess.Popen(reader, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}) as process:
            assert tpx.run("reshard", "slow", output, log="log", **options)["written"]
            read = [json.loads(line)["event"] for line in process.communicate(timeout=60)[0].splitlines()]
        assert read[0] == "start" and (read[-1] == "end" if output == "cat" else len(read) == 1), read


signal.alarm(300)  # a run that waits forever fails
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
