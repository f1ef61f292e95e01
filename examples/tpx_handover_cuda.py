# SPDX-License-Identifier: Apache-2.0
"""Maps memory of a GPU that a keeper holds (`tpx hold --device cuda`) as a tensor, by CUDA IPC; needs PyTorch alone. Part of tpx_handover.py."""
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


class GpuMemory:
    """What `keeper` holds of a rank on a GPU. `bytes` is a tensor on that GPU, valid until close()."""

    def __init__(self, document, keeper):
        self.keeper, gpu = keeper, document["gpu"]
        if not torch.version.cuda:
            raise keeper.error("the state is in the memory of a GPU, and this PyTorch was built without CUDA")
        try:
            self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")  # the one that PyTorch has loaded
        except OSError as error:
            raise keeper.error(f"the state is in the memory of a GPU: {error}; load the checkpoint on disk") from None
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p
        device, address = ctypes.c_int(), ctypes.c_void_p()
        self.call("cudaDeviceGetByPCIBusId", ctypes.byref(device), gpu["bus"].encode())
        self.device = device.value
        with torch.cuda.device(self.device):
            handle = Handle.from_buffer_copy(bytes.fromhex(gpu["handle"]))
            self.call("cudaIpcOpenMemHandle", ctypes.byref(address), handle, LAZY_PEER_ACCESS)
        self.mapping = Mapping(self.runtime, self.device, address.value, document["size"])
        self.bytes = torch.as_tensor(self.mapping, device=f"cuda:{self.device}")

    def reason(self, code):
        return self.runtime.cudaGetErrorString(code).decode()

    def call(self, function, *arguments):
        code = getattr(self.runtime, function)(*arguments)
        if code != 0:
            raise self.keeper.error(f"{function}: {self.reason(code)}; load the checkpoint on disk")

    def close(self):
        """Waits for copies from the memory, and unmaps it. If it cannot be unmapped, the copies are still good."""
        torch.cuda.synchronize(self.device)
        self.bytes = None
        code = self.mapping.close()
        if code != 0:
            warnings.warn(f"hold:{self.keeper.name}: cudaIpcCloseMemHandle: {self.reason(code)}", RuntimeWarning, stacklevel=2)
