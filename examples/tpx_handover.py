# SPDX-License-Identifier: Apache-2.0
"""Hands training state from process to process of a host through shared memory, with `tpx hold`; needs PyTorch alone.

attach("job", rank).load(state_dict) takes the shards of a rank from a keeper (`tpx hold CKPT --name job`, `tpx reshard ... --hold 300`).
export(state_dict, "live", rank, ranks) leaves a copy of them to a keeper (`tpx hold --name live --empty`); other programs read hold:live
as a checkpoint, also after this process has ended. tpx-hold(1) describes the messages and documents."""
import fcntl, io, json, mmap, os, socket, struct, time, zlib  # fmt: skip

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

ALIGNMENT, ADD_SEALS, FIXED_SIZE = 64, 1033, 2 | 4  # seals of fcntl(2): neither shrinks nor grows


class HandoverError(RuntimeError):
    def __init__(self, text, busy=False):
        super().__init__(text)
        self.busy = busy  # another process uses the state now


class Keeper:
    """A connection to the keeper `name` of this user on this host."""

    def __init__(self, name):
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        self.name, self.socket = name, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.connect((f"{runtime}/tpx" if runtime else f"/tmp/tpx-{os.geteuid()}") + f"/{name}.sock")
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise self.error("nothing is held on this host" if error.errno == 2 else "the keeper was killed, which freed the memory") from None
        if (user := struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]) != os.geteuid():
            raise self.error(f"the keeper belongs to user {user}")

    def error(self, text, busy=False):
        return HandoverError(f"hold:{self.name}: {text}", busy)

    def request(self, message, files=()):
        """Returns the files of the keeper's answer. Raises HandoverError if it refuses or has ended."""
        try:
            socket.send_fds(self.socket, [json.dumps(message).encode()], files)
            text, received, _, _ = socket.recv_fds(self.socket, 1 << 17, 8, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            text = b""
        answer = json.loads(text or '{"error": "the keeper has ended"}')
        if "error" in answer:
            raise self.error(answer["error"], answer.get("busy", False))
        return received


class Held:
    """State of a rank: `tensors` maps (name, first index in the whole tensor) to shards, `objects` names to bytes of torch.save."""

    def __init__(self, document, memory):
        self.document, self.tensors, self.objects = document, {}, {}
        for one in document["tensors"]:
            dtype, count = getattr(torch, one["dtype"]), torch.Size(one["sizes"]).numel()
            shard = torch.frombuffer(memory, dtype=dtype, count=count, offset=one["offset"]) if count else torch.empty(0, dtype=dtype)
            self.tensors[one["name"], tuple(one["begin"])] = shard.view(one["sizes"])
        for one in document["objects"]:
            self.objects[one["name"]] = memory[one["offset"] : one["offset"] + one["length"]]

    def state_dict(self):
        """The state dict that was saved, with this rank's shards in place of whole tensors."""
        state = {}
        for one in self.document["tensors"] + self.document["objects"]:
            value = self.tensors[one["name"], tuple(one["begin"])] if "begin" in one else torch.load(io.BytesIO(self.objects[one["name"]]), weights_only=True)
            set_element(state, tuple(one.get("path", [one["name"]])), value)
        return state

    def load(self, state_dict):
        """Fills the tensors of `state_dict`, and replaces its other values. Raises HandoverError if the state lacks one."""
        flat, paths = flatten_state_dict(state_dict)
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                begin, local = shard_of(value)
                shard = self.tensors.get((name, begin), local[:0] if local.numel() == 0 else None)
                if shard is None or shard.numel() != local.numel() or shard.dtype != local.dtype:
                    raise HandoverError(f"'{name}': no shard {list(local.shape)} of {local.dtype} at {list(begin)} is held; another layout?")
                local.copy_(shard.view(local.shape))
            elif name in self.objects:
                set_element(state_dict, paths[name], torch.load(io.BytesIO(self.objects[name]), weights_only=True))
            else:
                raise HandoverError(f"'{name}' is not held")


def shard_of(tensor):
    """What this rank has of a tensor: its first index in the whole tensor, and the local tensor."""
    if not isinstance(tensor, DTensor):
        return (0,) * tensor.dim(), tensor.detach()
    _, begin = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(begin), tensor.detach().to_local()


def attach(name, rank, wait=60.0, verify=False):
    """Takes the state of `rank` from a keeper, which has it no longer; waits for processes that use it. `verify`: checks CRC-32s."""
    deadline, files = time.monotonic() + wait, None
    while not files:
        try:
            files = (keeper := Keeper(name)).request({"op": "take", "rank": rank})
        except HandoverError as error:
            if not error.busy or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
    document = json.loads(os.pread(files[0], os.fstat(files[0]).st_size, 0))
    memory = mmap.mmap(files[1], document["size"]) if document["size"] else bytearray()
    held, at = Held(document, memory), document.get("crcs")
    for number, ((tensor, _), shard) in enumerate(held.tensors.items() if verify and at is not None else ()):
        if zlib.crc32(shard.reshape(-1).view(torch.uint8).numpy()) != int.from_bytes(memory[at + 4 * number : at + 4 * number + 4], "little"):
            raise keeper.error(f"rank {rank}: '{tensor}' is not what was held; load the checkpoint on disk")
    keeper.request({"op": "done"})  # if this process ends before, the keeper still has the state
    os.close(files[0]), os.close(files[1])
    return held


def memory_file(name, size):
    os.ftruncate(file := os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), size)
    fcntl.fcntl(file, ADD_SEALS, FIXED_SIZE)
    return file, mmap.mmap(file, size) if size else bytearray()


def export(state_dict, name, rank=0, ranks=1, iteration=None, job="", layout=""):
    """Leaves a copy of this rank's state to a keeper, in place of an earlier one, which stays if this process is killed meanwhile."""
    keeper, (flat, paths) = Keeper(name), flatten_state_dict(state_dict)
    document = {"memory": "host", "rank": rank, "ranks": ranks, "iteration": iteration, "job": job, "layout": layout}
    tensors, objects, sources, end = [], [], [], 0
    for key, value in flat.items():
        one = {"name": key, "path": list(paths[key]), "offset": end}
        if isinstance(value, torch.Tensor):
            begin, local = shard_of(value)
            tensors.append(one | {"dtype": str(value.dtype)[6:], "shape": value.shape, "begin": begin, "sizes": local.shape})
        else:
            torch.save(value, file := io.BytesIO())
            local = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
            objects.append(one | {"length": local.numel()})
        sources.append((end, local))
        end += -(-local.numel() * local.element_size() // ALIGNMENT) * ALIGNMENT
    if end > (free := 1024 * int(open("/proc/meminfo").read().split("MemAvailable:")[1].split()[0])):
        raise keeper.error(f"rank {rank}: {end:,} bytes of state do not fit into memory, of which {free:,} are free")
    segment, memory = memory_file(f"tpx-rank-{rank}", end)
    for offset, local in sources:
        if local.numel():
            torch.frombuffer(memory, dtype=local.dtype, count=local.numel(), offset=offset).view(local.shape).copy_(local)
    encoded = json.dumps(document | {"size": end, "tensors": tensors, "objects": objects}).encode()
    text, memory = memory_file("tpx-document", len(encoded))
    memory[:] = encoded
    keeper.request({"op": "put"}, [text, segment])
    os.close(text), os.close(segment)
