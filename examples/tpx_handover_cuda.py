# SPDX-License-Identifier: Apache-2.0
"""Maps memory of a GPU that a keeper holds (`tpx hold --device cuda`), or has allocated for an export, as a tensor, by CUDA IPC;
needs PyTorch alone. Part of tpx_handover.py."""
import contextlib
import ctypes
import warnings

import torch

LAZY_PEER_ACCESS = 1


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t"""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class Mapping:
    """Memory that CUDA's runtime has opened. Tensors made of it keep it; with the last of them, it is closed."""

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
        code = getattr(self.runtime, function)(*arguments)
        if code != 0:
            raise self.keeper.error(f"{function}: {self.reason(code)}; {self.advice}")


class GpuMemory(Cuda):
    """What `keeper` holds of a rank on a GPU, at `place`. `bytes` is a tensor on that GPU, valid until close()."""

    def __init__(self, place, size, keeper, advice="load the checkpoint on disk"):
        super().__init__(keeper, advice)
        self.place = place
        device, address = ctypes.c_int(), ctypes.c_void_p()
        self.call("cudaDeviceGetByPCIBusId", ctypes.byref(device), place["bus"].encode())
        self.device = device.value
        with torch.cuda.device(self.device):
            handle = Handle.from_buffer_copy(bytes.fromhex(place["handle"]))
            self.call("cudaIpcOpenMemHandle", ctypes.byref(address), handle, LAZY_PEER_ACCESS)
        self.mapping = Mapping(self.runtime, self.device, address.value, size)
        self.bytes = torch.as_tensor(self.mapping, device=f"cuda:{self.device}")

    def close(self):
        """Waits for copies from and to the memory, and unmaps it. If it cannot be unmapped, the copies are still good."""
        torch.cuda.synchronize(self.device)
        self.bytes = None
        code = self.mapping.close()
        if code != 0:
            warnings.warn(f"hold:{self.keeper.name}: cudaIpcCloseMemHandle: {self.reason(code)}", RuntimeWarning, stacklevel=2)


def allocate(keeper, device, size):
    """Memory of a GPU that `keeper` allocates for what this process exports next; freed with the connection if nothing is."""
    advice = "export to memory of the host"
    cuda, bus = Cuda(keeper, advice), ctypes.create_string_buffer(32)
    number = torch.cuda.current_device() if device.index is None else device.index
    cuda.call("cudaDeviceGetPCIBusId", bus, len(bus), number)
    answer, _ = keeper.request({"op": "allocate", "bus": bus.value.decode(), "size": size})
    return GpuMemory({"bus": answer["bus"], "handle": answer["handle"]}, size, keeper, advice)
