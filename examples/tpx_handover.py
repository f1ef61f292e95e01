# SPDX-License-Identifier: Apache-2.0
"""Hands training state from process to process of a host through shared memory, with `tpx hold`; needs PyTorch alone.

attach("job", rank).load(state_dict) takes the shards of a rank from a keeper (`tpx hold CKPT --name job`, `tpx reshard ... --hold 300`).
export(state_dict, "live", rank, ranks, step) leaves a copy of them to a keeper (`tpx hold --name live --empty`); other programs read hold:live
as a checkpoint, also after this process has ended. tpx-hold(1) describes the messages and documents."""
import contextlib, fcntl, importlib, io, json, mmap, os, pathlib, socket, struct, time, zlib  # fmt: skip
import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

ALIGNMENT, STEP, ADD_SEALS, FIXED_SIZE = 64, 1 << 26, 1033, 2 | 4  # the last two of fcntl(2): neither shrinks nor grows


class HandoverError(RuntimeError):
    busy = False  # True: another process uses the state now


class Keeper:
    """A connection to the keeper `name` of this user on this host, which answers within `wait` seconds."""

    def __init__(self, name, wait=60.0):
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        folder = f"{runtime}/tpx" if os.path.isabs(runtime) and os.path.isdir(runtime) else f"/tmp/tpx-{os.geteuid()}"
        self.name, self.socket = name, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.connect(f"{folder}/{name}.sock")
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise self.error("no keeper has this name on this host" if error.errno == 2 else "the keeper was killed and its memory freed") from None
        self.socket.settimeout(max(wait, 1.0))
        if (user := struct.unpack("iII", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]) != os.geteuid():
            raise self.error(f"the keeper belongs to user {user}")

    def error(self, text, busy=False):
        (error := HandoverError(f"hold:{self.name}: {text}")).busy = busy
        return error

    def request(self, message, files=(), may_end=False):
        """Returns the keeper's answer and its files. Raises HandoverError if it refuses, does not answer in time, or has ended and must not."""
        try:
            socket.send_fds(self.socket, [json.dumps(message).encode()], files)
            text, received, _, _ = socket.recv_fds(self.socket, 1 << 17, 8, socket.MSG_CMSG_CLOEXEC)
        except (BrokenPipeError, ConnectionResetError):
            text = b""
        except OSError as error:
            late = f"no answer in {self.socket.gettimeout():g} s; the keeper may still be reading its checkpoint"
            raise self.error(late if isinstance(error, TimeoutError) else str(error)) from None
        answer = json.loads(text or ("{}" if may_end else '{"error": "the keeper has ended"}'))
        if "error" in answer:
            raise self.error(answer["error"], answer.get("busy", False))
        return answer, received if text else []


class Held:
    """State of a rank: `tensors` maps (name, first index in the whole tensor) to shards, `shapes` names to shapes of whole tensors,
    `objects` names to bytes of torch.save. The keeper keeps its copy until load(), state_dict() or taken() returns."""

    def __init__(self, document, memory, keeper):
        self.document, self.keeper, self.tensors, self.shapes = document, keeper, {}, {}
        try:
            self.gpu = importlib.import_module("tpx_handover_cuda").GpuMemory(document["gpu"], document["size"], keeper) if document["memory"] == "cuda" else None
        except ImportError as error:
            raise keeper.error(f"the state is in the memory of a GPU: {error}; load the checkpoint on disk") from None
        whole = self.gpu.bytes if self.gpu else torch.frombuffer(memory or bytearray(1), dtype=torch.uint8)
        for one in document["tensors"]:
            dtype = getattr(torch, one["dtype"])
            shard = whole[one["offset"] : one["offset"] + torch.Size(one["sizes"]).numel() * dtype.itemsize]
            self.tensors[one["name"], tuple(one["begin"])] = shard.view(dtype).view(one["sizes"])
            self.shapes[one["name"]] = tuple(one["shape"])
        self.objects = {one["name"]: memory[one["offset"] : one["offset"] + one["length"]] for one in document["objects"]}

    def taken(self):
        """Tells the keeper to free this state. Mapped tensors in memory of the host stay valid, also after the keeper has ended."""
        if self.keeper:
            self.tensors = self.gpu.close() or {} if self.gpu else self.tensors
            self.keeper.request({"op": "done"}, may_end=True)
        self.keeper = None

    def value(self, name):
        try:
            return torch.load(io.BytesIO(self.objects[name]), weights_only=False)  # as in dcp.load()
        except Exception as error:
            raise HandoverError(f"'{name}': {error}") from error

    def state_dict(self):
        """The state dict that was saved, with this rank's shards in place of whole tensors."""
        state = {}
        for one in self.document["tensors"] + self.document["objects"]:
            value = self.tensors[one["name"], tuple(one["begin"])] if "begin" in one else self.value(one["name"])
            set_element(state, tuple(one.get("path", [one["name"]])), value.clone() if self.gpu and "begin" in one else value)
        self.taken()
        return state

    def load(self, state_dict):
        """Fills the tensors of `state_dict`, and replaces its other values. Raises HandoverError, and changes nothing, if the state lacks one."""
        (flat, paths), fills = flatten_state_dict(state_dict), []
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                (begin, local), whole = shard_of(value), tuple(value.shape)
                shard = self.tensors.get((name, begin)) if local.numel() else local
                if shard is None or self.shapes.get(name, whole) != whole or (shard.shape, shard.dtype) != (local.shape, local.dtype):
                    wanted = f"{local.dtype} shard of shape {list(local.shape)} at {list(begin)} of a tensor of shape {list(whole)}"
                    raise HandoverError(f"'{name}': no {wanted} is held; is this another layout?")
                fills.append((local.copy_, (shard,)))
            elif name in self.objects:
                fills.append((set_element, (state_dict, paths[name], self.value(name))))
            else:
                raise HandoverError(f"'{name}' is not held")
        for fill, values in fills:
            fill(*values)
        self.taken()


def shard_of(tensor):
    """What this rank has of a tensor: its first index in the whole tensor, and the local tensor."""
    if not isinstance(tensor, DTensor):
        return (0,) * tensor.dim(), tensor.detach()
    return tuple(compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)[1]), tensor.detach().to_local()


def attach(name, rank, wait=60.0, verify=False):
    """Takes the state of `rank` from a keeper; waits for processes that use it. `verify`: checks CRC-32s."""
    deadline, files = time.monotonic() + wait, None
    while files is None:
        try:
            _, files = (keeper := Keeper(name, deadline - time.monotonic())).request({"op": "take", "rank": rank})
        except HandoverError as error:
            if not error.busy or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
    with contextlib.ExitStack() as opened:
        _ = [opened.callback(os.close, file) for file in files]
        document = json.loads(os.pread(files[0], os.fstat(files[0]).st_size, 0))
        memory = mmap.mmap(files[1], document["size"]) if document["size"] else bytearray()
    held, at = Held(document, memory, keeper), document.get("crcs")
    for number, ((tensor, _), shard) in enumerate(held.tensors.items() if verify and at is not None else ()):
        if zlib.crc32(shard.reshape(-1).view(torch.uint8).cpu().numpy()) != int.from_bytes(memory[at + 4 * number : at + 4 * number + 4], "little"):
            raise keeper.error(f"rank {rank}: '{tensor}' is not what was held; load the checkpoint on disk")
    return held


def free_memory():
    """Bytes that the system and the control groups (version 2) of this process leave; unused file pages count as free."""
    free = 1024 * int(pathlib.Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0])
    group = next((line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    for folder in (path := pathlib.Path("/sys/fs/cgroup" + group), *path.parents):
        with contextlib.suppress(OSError, ValueError, IndexError):  # "max": no limit
            limit, used = (int((folder / f"memory.{what}").read_text()) for what in ("max", "current"))
            free = min(free, limit - used + int((folder / "memory.stat").read_text().split("inactive_file ")[1].split()[0]))
    return max(free, 0)


def memory_file(opened, keeper, name, size, sparse=False):
    """A file in memory. Unless it is sparse, it has all its memory. Other ranks of this host take theirs at the same time, so what is free is asked at each step."""
    opened.callback(os.close, file := os.memfd_create("tpx-" + name.replace(" ", "-"), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(file, size)
    for begin in range(0, 0 if sparse else size, STEP):
        if size - begin > (free := free_memory()):
            raise keeper.error(f"{name}: {size:,} bytes do not fit into memory, of which {free + begin:,} are free")
        os.posix_fallocate(file, begin, min(STEP, size - begin))
    fcntl.fcntl(file, ADD_SEALS, FIXED_SIZE)
    return file, mmap.mmap(file, size) if size else bytearray()


def export(state_dict, name, rank, ranks, iteration, job="", layout="", device="cpu"):
    """Leaves a copy of this rank's state to a keeper, in place of an earlier one, which stays if this process is killed meanwhile.
    `device`: where the copy of the tensors is, such as tensor.device; a GPU needs memory for it beside the earlier one."""
    keeper, (flat, paths) = Keeper(name), flatten_state_dict(state_dict)
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
        sources.append((end, local, isinstance(value, torch.Tensor)))
        end += -(-local.numel() * local.element_size() // ALIGNMENT) * ALIGNMENT
    document = dict(memory="host", rank=rank, ranks=ranks, iteration=iteration, job=job, layout=layout, size=end, tensors=tensors, objects=objects)
    with contextlib.ExitStack() as opened:
        on_gpu = torch.device(device).type == "cuda"
        gpu = importlib.import_module("tpx_handover_cuda").allocate(keeper, torch.device(device), end) if on_gpu else None
        segment, memory = memory_file(opened, keeper, f"rank {rank}", end, sparse=on_gpu)
        host = torch.frombuffer(memory or bytearray(1), dtype=torch.uint8)
        for offset, local, is_tensor in (one for one in sources if one[1].numel()):
            for whole in ([gpu.bytes] if gpu else []) + ([] if gpu and is_tensor else [host]):  # a GPU has the other values, too
                whole[offset : offset + local.nbytes].view(local.dtype).view(local.shape).copy_(local)
        if gpu:
            document |= {"memory": "cuda", "gpu": gpu.place}
            gpu.close()
        encoded = json.dumps(document).encode()
        text, memory = memory_file(opened, keeper, f"document of rank {rank}", len(encoded))
        memory[:] = encoded
        keeper.request({"op": "put"}, [text, segment])
