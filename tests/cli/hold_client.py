#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hold_client.py WHAT NAME [WORD...]: a client of keepers that shares no code with tpx and examples/tpx_handover.py.

take NAME RANK...  takes ranks, and prints the digest of the bytes of the tensors of each
collect NAME FOLDER:RANK...
                   takes ranks of the keepers NAME in several folders for sockets, and prints the same for each
bytes NAME RANK... prints the digest of all bytes of each rank's segment, and that of its document but for the memory; does not take it
die NAME RANK      is killed while it takes a rank
read NAME SECONDS  reads the manifest, and stays connected
open NAME SECONDS  the same of the state where it is, on GPUs
proxy NAME OTHER   is a keeper NAME that does not know the request "open", and leaves the others to the keeper OTHER
put NAME FAULT [RANK RANKS ITERATION]
                   exports a rank (rank 0 of 1, iteration 7), with FAULT: none, dies, unsealed, short, box, json, dtype, crc, cuda, device,
                   twice, undated; or to memory of GPU 1, with FAULT: gpu, gpu-dies, gpu-size, gpu-offset, gpu-other
reserve NAME SHARE SECONDS
                   gets memory for an export, SHARE of what the system has, and stays connected
many NAME          connects 480 times, and sends what is no request
each prints "refused: ..." and exits with 1 if the keeper refuses."""
import ctypes
import fcntl
import hashlib
import json
import math
import os
import signal
import socket
import sys
import time
import zlib


def connect(name):
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = folder + "/tpx" if folder.startswith("/") and os.path.isdir(folder) else f"/tmp/tpx-{os.geteuid()}"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(20)
    connection.connect(f"{folder}/{name}.sock")
    return connection


def ask(connection, message, files=()):
    socket.send_fds(connection, [message if isinstance(message, bytes) else json.dumps(message).encode()], files)
    text, received, _, _ = socket.recv_fds(connection, 1 << 17, 8)
    if not text:
        sys.exit("refused: the connection was closed")
    answer = json.loads(text)
    if "error" in answer:
        sys.exit(f"refused: {answer['error']}" + (" (busy)" if answer.get("busy") else ""))
    return answer, received


def content(file):
    return os.pread(file, os.fstat(file).st_size, 0)


def take(name, rank, end=True):
    connection = connect(name)
    _, (document, segment) = ask(connection, {"op": "take", "rank": int(rank)})
    if not end:
        os.kill(os.getpid(), signal.SIGKILL)
    document, segment = json.loads(content(document)), content(segment)
    if document["memory"] == "cuda":
        assert not any(segment[: document["tensors"][0]["offset"] + 4096 * (len(segment) > 1 << 20)]), "tensors are in the segment, too"
        segment, close = on_gpu(document["gpu"], document["size"])
    else:
        close = None
    digests = []
    for number, one in enumerate(document["tensors"]):
        size = math.prod(one["sizes"]) * {"bfloat16": 2, "float32": 4, "int64": 8, "float16": 2, "float8_e4m3fn": 1}[one["dtype"]]
        payload = segment[one["offset"] : one["offset"] + size]
        at = document["crcs"] + 4 * number
        assert zlib.crc32(payload) == int.from_bytes(segment[at : at + 4], "little"), one["name"]
        digests.append(f"{one['name']} {one['begin']} {one['sizes']} {hashlib.sha256(payload).hexdigest()}")
    if close:
        close()
    ask(connection, {"op": "done"})
    print(f"rank {rank}: {len(document['tensors'])} tensors {hashlib.sha256(' '.join(sorted(digests)).encode()).hexdigest()[:12]}")


def collect(name, *places):
    for place in places:
        os.environ["XDG_RUNTIME_DIR"], rank = place.rsplit(":", 1)
        take(name, rank)


def whole(name, rank):
    _, (document, segment) = ask(connect(name), {"op": "take", "rank": int(rank)})
    document, segment = json.loads(content(document)), content(segment)
    gpu, size = document.pop("gpu", None), document["size"]
    on_host = segment[:size]
    if gpu:
        segment, close = on_gpu(gpu, size)
        assert all(segment[one["offset"] :][: one["length"]] == on_host[one["offset"] :][: one["length"]] for one in document["objects"])
        assert segment[document["crcs"] :] == on_host[document["crcs"] :], "other checksums on the host"
        close()
    document.pop("memory")
    print(f"rank {rank}: {hashlib.sha256(segment[:size]).hexdigest()[:12]} {hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12]}")


def proxy(name, other):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{os.environ['XDG_RUNTIME_DIR']}/tpx/{name}.sock")
    listener.listen()
    while True:
        client, _ = listener.accept()
        keeper = connect(other)
        while text := client.recv(1 << 17):
            if json.loads(text)["op"] == "open":
                client.send(b'{"error": "unknown op \'open\'"}')
                continue
            keeper.send(text)
            client.send(keeper.recv(1 << 17))


def on_gpu(gpu, size):
    """The bytes of GPU memory, and a function that closes it."""
    address, close = opened_on_gpu(gpu)
    return ctypes.string_at(address, size), close


def opened_on_gpu(gpu):
    """Opens GPU memory with CUDA's runtime, or with the fake runtime $CUDART. Returns the address and a function that closes it."""

    class Handle(ctypes.Structure):
        _fields_ = [("reserved", ctypes.c_char * 64)]

    runtime, address, device = ctypes.CDLL(os.environ["CUDART"]), ctypes.c_void_p(), ctypes.c_int()
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    for call, *words in (
        ("cudaDeviceGetByPCIBusId", ctypes.byref(device), gpu["bus"].encode()),
        ("cudaSetDevice", device),
        ("cudaIpcOpenMemHandle", ctypes.byref(address), Handle.from_buffer_copy(bytes.fromhex(gpu["handle"])), 1),
    ):
        if code := getattr(runtime, call)(*words):
            sys.exit(f"{call}: {runtime.cudaGetErrorString(code).decode()}")
    return address, lambda: runtime.cudaIpcCloseMemHandle(address)


def memory(data, seal=True):
    file = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(file, data)
    if seal:
        fcntl.fcntl(file, 1033, 6)
    return file


def put(name, fault, rank=0, ranks=1, iteration=7):
    rank, ranks = int(rank), int(ranks)
    payload = bytes(range(24))
    tensor = {"name": "w", "dtype": "float32", "shape": [2 * ranks, 3], "begin": [2 * rank, 0], "sizes": [2, 3], "offset": 0}
    document = {"memory": "host", "rank": rank, "ranks": ranks, "iteration": int(iteration), "size": 28, "tensors": [tensor], "objects": [], "crcs": 24}
    table = zlib.crc32(payload).to_bytes(4, "little")
    if fault == "short":
        payload, table = payload[:8], b""
    elif fault == "box":
        tensor["begin"] = [2 * ranks - 1, 0]
    elif fault == "dtype":
        tensor["dtype"] = "float33"
    elif fault == "crc":
        table = bytes(4)
    elif fault == "device":
        document["memory"] = "device"
    elif fault == "cuda":
        document |= {"memory": "cuda", "gpu": {"bus": "0000:a0:00.0", "handle": "00" * 64}}
    elif fault.startswith("gpu"):
        return put_on_gpu(name, fault, document, payload + table)
    elif fault == "undated":
        del document["iteration"]
    elif fault == "twice":
        document["tensors"].append(tensor)
        document["crcs"] = None
    text = b"[" if fault == "json" else json.dumps(document).encode()
    files = [memory(text), memory(payload + table, fault != "unsealed")]
    connection = connect(name)
    if fault == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    ask(connection, {"op": "put"}, files)
    print("exported")


def reserve(name, share, seconds):
    with open("/proc/meminfo") as file:
        free = 1024 * int(file.read().split("MemAvailable:")[1].split()[0])
    connection = connect(name)
    size = int(free * float(share))
    _, (file,) = ask(connection, {"op": "allocate", "size": size})
    assert os.fstat(file).st_size == size and fcntl.fcntl(file, 1034) == 6
    print("reserved", flush=True)
    time.sleep(float(seconds))


def put_on_gpu(name, fault, document, data):
    connection = connect(name)
    size = document["size"] - (fault == "gpu-size")
    place, _ = ask(connection, {"op": "allocate", "bus": "0000:a1:00.0", "size": size})
    gpu = {key: place[key] for key in ("bus", "handle")}
    address, close = opened_on_gpu(gpu)
    ctypes.memmove(address, data, size)
    close()
    if fault == "gpu-dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "gpu-other":
        gpu["handle"] = gpu["handle"][2:] + "ff"
    if fault == "gpu-offset":
        document["tensors"][0]["offset"] = 2
    segment = bytes(document["crcs"]) + data[document["crcs"] :]
    ask(connection, {"op": "put"}, [memory(json.dumps(document | {"memory": "cuda", "gpu": gpu}).encode()), memory(segment)])
    print("exported")


def many(name):
    connections = [connect(name) for _ in range(480)]
    for connection in connections[:20]:
        connection.send(b"nonsense")
        connection.send(b'{"op": 3}')
        connection.send(b'{"op": "take", "rank": -1}')
        connection.send(bytes(100_000))
    print("done")


def each(function):
    return lambda name, *ranks: [function(name, rank) for rank in ranks]


what, name, *words = sys.argv[1:]
if what in ("read", "open"):
    connection = connect(name)
    while "copying" in (answer := ask(connection, {"op": what})[0]):
        time.sleep(0.05)
    print(answer["manifest"], flush=True)
    time.sleep(float(words[0]))
elif what == "die":
    take(name, words[0], end=False)
else:
    {"take": each(take), "collect": collect, "bytes": each(whole), "proxy": proxy, "put": put, "reserve": reserve, "many": many}[what](name, *words)
