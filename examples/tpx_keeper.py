# SPDX-License-Identifier: Apache-2.0
"""Talks to a keeper of `tpx hold`, and maps its memory as tensors: shared memory of the host and, by CUDA IPC, memory of a GPU. Part of
tpx_handover.py; tpx-hold(1) describes the messages."""
import contextlib
import ctypes
import errno
import json
import mmap
import os
import socket
import struct
import time
import warnings

import torch

REASONS = {errno.ENOENT: "no keeper has this name on this host", errno.ECONNREFUSED: "the keeper was killed and its memory freed"}
LAZY_PEER_ACCESS = 1  # of cudaIpcOpenMemHandle()


class HandoverError(RuntimeError):
    pass


class Keeper:
    """A connection to the keeper `name` of this user on this host. Waits up to `wait` seconds for each answer and, in total,
    for ranks that other processes use."""

    def __init__(self, name, wait=60.0):
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        folder = f"{runtime}/tpx" if os.path.isabs(runtime) and os.path.isdir(runtime) else f"/tmp/tpx-{os.geteuid()}"
        self.name, self.deadline = name, time.monotonic() + wait
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.connect(f"{folder}/{name}.sock")
        except OSError as error:
            raise self.error(REASONS.get(error.errno, error)) from None
        self.socket.settimeout(max(wait, 1.0))
        _, user, _ = struct.unpack("iII", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            raise self.error(f"the keeper belongs to user {user}")

    def error(self, text):
        return HandoverError(f"hold:{self.name}: {text}")

    @contextlib.contextmanager
    def memory_errors(self):
        """Turns errors of the system into HandoverError."""
        try:
            yield
        except OSError as error:
            raise self.error(f"shared memory: {error.strerror}") from error

    def request(self, message, files=(), may_end=False):
        """Returns the keeper's answer and its files. Raises HandoverError if the connection fails, or if the keeper refuses, times out,
        or ends although `may_end` is false."""
        while True:
            try:
                socket.send_fds(self.socket, [json.dumps(message).encode()], files)
                text, received, _, _ = socket.recv_fds(self.socket, 1 << 17, 8, socket.MSG_CMSG_CLOEXEC)
            except (BrokenPipeError, ConnectionResetError):
                text, received = b"", []
            except OSError as error:
                late = f"no answer in {self.socket.gettimeout():g} s; the keeper may still be reading its checkpoint"
                raise self.error(late if isinstance(error, TimeoutError) else error) from None
            answer = json.loads(text or ("{}" if may_end else '{"error": "the keeper has ended"}'))
            if "error" not in answer:
                return answer, [os.fdopen(file, "rb", buffering=0) for file in received]
            if not answer.get("busy") or time.monotonic() >= self.deadline:
                raise self.error(answer["error"])
            time.sleep(0.05)

    def take(self, rank):
        """The document of a rank and its memory, which the keeper keeps until this connection requests "done"."""
        _, (text, segment) = self.request({"op": "take", "rank": rank})
        document = json.loads(os.pread(text.fileno(), os.fstat(text.fileno()).st_size, 0))
        return document, Memory(self, segment, document["size"], document.get("gpu"), "load the checkpoint on disk")

    def allocate(self, size, device=None):
        """Allocates memory for the next put(): on `device` if it is a GPU, otherwise on the host."""
        place, advice = {}, "export to memory of the host"
        if device is not None and device.type == "cuda":
            place = {"bus": Cuda(self, advice).pci_address(device)}
        answer, (segment,) = self.request({"op": "allocate", "size": size} | place)
        if size and not place:
            with self.memory_errors():
                os.posix_fallocate(segment.fileno(), 0, size)  # at once is faster than page by page
        return Memory(self, segment, size, answer if place else None, advice)

    def put(self, document, memory):
        """Leaves the state in `memory`, which `document` describes, to the keeper."""
        memory.close()
        place = {"memory": "cuda", "gpu": memory.place} if memory.place else {"memory": "host"}
        text = json.dumps(document | place).encode()
        written = self.allocate(len(text))
        written.raw[:] = text
        self.request({"op": "put"}, [written.file.fileno(), memory.file.fileno()])


class Memory:
    """The segment of a rank: `raw` and the tensor `host` have its bytes, and `bytes` those of tensors, on the GPU if `place` names one."""

    def __init__(self, keeper, file, size, place, advice):
        self.file, self.place = file, place and {key: place[key] for key in ("bus", "handle")}
        with keeper.memory_errors():
            self.raw = mmap.mmap(file.fileno(), size) if size else bytearray(1)
        self.host = self.bytes = torch.frombuffer(self.raw, dtype=torch.uint8)
        self.cuda = Cuda(keeper, advice) if place else None
        if place:
            self.mapping = self.cuda.open_handle(place, size)
            self.bytes = torch.as_tensor(self.mapping, device=f"cuda:{self.mapping.device}")

    def close(self):
        """Waits for copies from and to a GPU, and unmaps its memory. If it cannot be unmapped, the copies are still good."""
        if self.cuda:
            torch.cuda.synchronize(self.mapping.device)
            self.bytes = None
            if code := self.mapping.close():
                text = f"hold:{self.cuda.keeper.name}: cudaIpcCloseMemHandle: {self.cuda.reason(code)}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t"""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class Mapping:
    """Memory of a GPU that CUDA's runtime has opened. Tensors made of it keep it; with the last of them, it is closed."""

    def __init__(self, runtime, device, address, size):
        self.runtime, self.device, self.address = runtime, device, address
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}

    def close(self):
        """Returns the code of CUDA's runtime."""
        address, self.address = self.address, None
        with torch.cuda.device(self.device):
            return self.runtime.cudaIpcCloseMemHandle(ctypes.c_void_p(address)) if address else 0

    def __del__(self):
        with contextlib.suppress(Exception):  # Python or CUDA may have ended
            self.close()


class Cuda:
    """CUDA's runtime, the one that PyTorch has loaded. Errors of calls are those of `keeper`, and end with `advice`."""

    def __init__(self, keeper, advice):
        self.keeper, self.advice = keeper, advice
        if not torch.version.cuda:
            raise keeper.error(f"this PyTorch was built without CUDA; {advice}")
        try:
            self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
        except OSError as error:
            raise keeper.error(f"CUDA: {error}; {advice}") from None
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p

    def reason(self, code):
        return self.runtime.cudaGetErrorString(code).decode()

    def call(self, function, *arguments):
        if code := getattr(self.runtime, function)(*arguments):
            raise self.keeper.error(f"{function}: {self.reason(code)}; {self.advice}")

    def pci_address(self, device):
        """The PCI address of a GPU."""
        bus, number = ctypes.create_string_buffer(32), torch.cuda.current_device() if device.index is None else device.index
        self.call("cudaDeviceGetPCIBusId", bus, len(bus), number)
        return bus.value.decode()

    def open_handle(self, place, size):
        """Maps the memory of a GPU that `place` names by PCI address and handle."""
        device, address = ctypes.c_int(), ctypes.c_void_p()
        self.call("cudaDeviceGetByPCIBusId", ctypes.byref(device), place["bus"].encode())
        with torch.cuda.device(device.value):
            handle = Handle.from_buffer_copy(bytes.fromhex(place["handle"]))
            self.call("cudaIpcOpenMemHandle", ctypes.byref(address), handle, LAZY_PEER_ACCESS)
        return Mapping(self.runtime, device.value, address.value, size)
