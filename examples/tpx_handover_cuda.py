# SPDX-License-Identifier: Apache-2.0
"""Maps memory of a GPU that a keeper holds (`tpx hold --device cuda`) as a tensor, by CUDA IPC; needs PyTorch alone. Part of tpx_handover.py."""
import ctypes

import torch

LAZY_PEER_ACCESS = 1


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t"""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class GpuMemory:
    """What `keeper` holds of a rank on a GPU. `bytes` is a tensor on that GPU, valid until close()."""

    def __init__(self, document, keeper):
        self.keeper, gpu, size = keeper, document["gpu"], document["size"]
        if not torch.version.cuda:
            raise keeper.error("the state is in the memory of a GPU, and this PyTorch was built without CUDA")
        self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")  # the one that PyTorch has loaded
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p
        device, self.address = ctypes.c_int(), ctypes.c_void_p()
        self.call("cudaDeviceGetByPCIBusId", ctypes.byref(device), gpu["bus"].encode())
        self.device = device.value
        with torch.cuda.device(self.device):
            handle = Handle.from_buffer_copy(bytes.fromhex(gpu["handle"]))
            self.call("cudaIpcOpenMemHandle", ctypes.byref(self.address), handle, LAZY_PEER_ACCESS)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (self.address.value, False), "version": 2}
        self.bytes = torch.as_tensor(self, device=f"cuda:{self.device}")

    def call(self, function, *arguments):
        code = getattr(self.runtime, function)(*arguments)
        if code != 0:
            raise self.keeper.error(f"{function}: {self.runtime.cudaGetErrorString(code).decode()}; load the checkpoint on disk")

    def close(self):
        """Waits for copies from the memory, and unmaps it."""
        torch.cuda.synchronize(self.device)
        del self.bytes
        with torch.cuda.device(self.device):
            self.call("cudaIpcCloseMemHandle", self.address)
