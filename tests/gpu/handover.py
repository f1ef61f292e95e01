# SPDX-License-Identifier: Apache-2.0
"""handover.py TPX CUDART: tensors that `tpx hold --device cuda` has in memory of a GPU are copied by examples/tpx_handover.py. CUDART
stands in for CUDA's runtime, and tensors in memory of the host for those on a GPU."""
import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import tpx_handover  # noqa: E402

synchronized = []
open_library = ctypes.CDLL


def stand_in(cudart):
    """PyTorch as if it had CUDA."""
    torch.version.cuda = "13.0"
    ctypes.CDLL = lambda name: open_library(cudart if name == "libcudart.so.13" else name)
    torch.cuda.device = lambda device: contextlib.nullcontext()
    torch.cuda.synchronize = synchronized.append

    def as_tensor(memory, device):
        (size,), (address, _) = memory.__cuda_array_interface__["shape"], memory.__cuda_array_interface__["data"]
        assert device == f"cuda:{memory.device}", device
        array = (ctypes.c_uint8 * size).from_address(address)
        array.owner = memory  # as PyTorch does, which keeps it with the storage
        return torch.frombuffer(array, dtype=torch.uint8)

    torch.as_tensor = as_tensor


def refusal(name):
    try:
        tpx_handover.attach(name, 0, wait=5)
    except tpx_handover.HandoverError as error:
        return str(error)
    return "not refused"


def mappings():
    return Path("/proc/self/maps").read_text().count("fake-gpu")


def main(tpx, cudart):
    torch.manual_seed(1)
    state = {"model": {"w": torch.rand(700, 30), "half": torch.rand(5, 3).bfloat16(), "none": torch.empty(0, 4), "code": torch.rand(40).to(torch.float8_e4m3fn)}, "step": 7}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        dcp.save(state, checkpoint_id=f"{folder}/saved", no_dist=True)

        def hold():
            subprocess.run([tpx, "hold", f"{folder}/saved", "--name", "gpu", "--to", "fsdp=1", "--device", "cuda", "--rank-gpus", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)

        def same(found):
            for name, tensor in state["model"].items():
                assert found["model"][name].dtype == tensor.dtype and torch.equal(found["model"][name].view(torch.uint8), tensor.view(torch.uint8)), name
            assert found["step"] == 7, found["step"]

        hold()
        text = refusal("gpu")
        assert "built without CUDA" in text or "libcudart" in text or "CUDA" in text, text
        stand_in(f"{folder}/absent.so")
        assert "absent.so" in (text := refusal("gpu")) and text.endswith("; load the checkpoint on disk"), text
        ctypes.CDLL = open_library
        stand_in(cudart)
        os.environ["FAKE_FAULT"] = "cudaIpcOpenMemHandle"
        text = refusal("gpu")
        assert text == "hold:gpu: cudaIpcOpenMemHandle: fake fault; load the checkpoint on disk", text
        del os.environ["FAKE_FAULT"]
        unopened = mappings()  # the call that failed has left one
        # What does not fit is refused, and the keeper still has the rank.
        try:
            tpx_handover.attach("gpu", 0).load({"model": {"w": torch.zeros(3)}})
            raise AssertionError("another shape was loaded")
        except tpx_handover.HandoverError as error:
            assert "'model.w': no torch.float32 shard" in str(error), error
        assert mappings() == unopened
        crc32, tpx_handover.zlib.crc32 = tpx_handover.zlib.crc32, lambda data: 0
        try:
            tpx_handover.attach("gpu", 0, verify=True)
            raise AssertionError("other bits were taken")
        except tpx_handover.HandoverError as error:
            assert "differs; load the checkpoint from disk" in str(error), error
        tpx_handover.zlib.crc32 = crc32
        assert mappings() == unopened
        empty = {"model": {name: torch.zeros_like(tensor) for name, tensor in state["model"].items()}, "step": 0}
        held = tpx_handover.attach("gpu", 0, verify=True)
        assert mappings() > unopened
        held.load(empty)
        same(empty)
        assert synchronized == [1], synchronized
        hold()
        found = tpx_handover.attach("gpu", 0).state_dict()
        same(found)
        assert subprocess.run([tpx, "hold", "--list"], check=True, capture_output=True).stdout == b"nothing is held\n"
        assert mappings() == unopened
        # If the memory cannot be closed, everything was copied already, and the keeper is told so.
        hold()
        os.environ["FAKE_FAULT"] = "cudaIpcCloseMemHandle"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            same(tpx_handover.attach("gpu", 0).state_dict())
        assert any("hold:gpu: cudaIpcCloseMemHandle: fake fault" in str(one.message) for one in said), said
        assert subprocess.run([tpx, "hold", "--list"], check=True, capture_output=True).stdout == b"nothing is held\n"
        del os.environ["FAKE_FAULT"], held

        # The other direction: a trainer exports to memory of a GPU, from which its successor's keeper copies.
        def tpx_does(*words):
            return subprocess.run([tpx, *words], check=True, capture_output=True, text=True)

        tpx_does("hold", "--name", "live", "--empty")
        tpx_handover.export(state, "live", 0, 1, 7, device="cuda:0")
        assert "rank 0: held on GPU 0, " in (text := tpx_does("hold", "--list").stdout), text
        tpx_does("verify", f"{folder}/saved", "hold:live")
        text = tpx_does("hold", "hold:live", "--name", "next", "--to", "fsdp=1", "--device", "cuda").stderr
        assert "from GPU to GPU" in text, text
        same(tpx_handover.attach("next", 0, verify=True).state_dict())
        os.environ["FAKE_FAULT"] = "cudaIpcOpenMemHandle"
        try:
            tpx_handover.export(state, "live", 0, 1, 8, device="cuda:0")
            raise AssertionError("exported to memory that cannot be opened")
        except tpx_handover.HandoverError as error:
            assert str(error) == "hold:live: cudaIpcOpenMemHandle: fake fault; export to memory of the host", error
        del os.environ["FAKE_FAULT"]
        same(tpx_handover.attach("live", 0).state_dict())  # the former export
        tpx_does("hold", "--release", "live")
    print("hand-over from a GPU: all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
