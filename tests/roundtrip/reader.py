# SPDX-License-Identifier: Apache-2.0
"""Reads safetensors, PyTorch DCP, Megatron torch_dist and zarr with only Python's standard library: a second
implementation with which tests compare tpx. For small files only; every tensor is assembled in memory."""
import hashlib
import io
import itertools
import json
import pickle
import struct
import zipfile
from pathlib import Path

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
SIZES |= {"f8_e4m3": 1, "f8_e5m2": 1}
SAFETENSORS = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "I16": "i16"}
SAFETENSORS |= {"I8": "i8", "U8": "u8", "BOOL": "bool", "F8_E4M3": "f8_e4m3", "F8_E5M2": "f8_e5m2"}
TORCH = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32"}
TORCH |= {"int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2"}
STORAGES = {"DoubleStorage": "f64", "FloatStorage": "f32", "HalfStorage": "f16", "BFloat16Storage": "bf16"}
STORAGES |= {"LongStorage": "i64", "IntStorage": "i32", "ShortStorage": "i16", "CharStorage": "i8", "ByteStorage": "u8"}
STORAGES |= {"BoolStorage": "bool"}
ZARR = {"<f8": "f64", "<f4": "f32", "<f2": "f16", "bfloat16": "bf16", "<i8": "i64", "<i4": "i32", "<i2": "i16", "|i1": "i8"}
ZARR |= {"|u1": "u8", "|b1": "bool"}


class Whole:
    """A tensor during assembly: its bytes in C order, and the boxes that were added."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape, self.boxes = dtype, tuple(shape), []
        self.data = bytearray(self._count(shape) * SIZES[dtype])

    @staticmethod
    def _count(shape):
        count = 1
        for size in shape:
            count *= size
        return count

    def put(self, offset, shape, data):
        """Adds `data`, which contains the box that begins at `offset`, in C order."""
        item = SIZES[self.dtype]
        assert len(data) == self._count(shape) * item, "a piece has not the bytes that its box asks for"
        self.boxes.append((tuple(offset), tuple(shape)))
        if not shape:
            self.data[:] = data
            return
        run = shape[-1] * item
        for row in range(self._count(shape[:-1])):
            at, rest = 0, row
            index = []
            for size in reversed(shape[:-1]):
                index.append(rest % size)
                rest //= size
            for size, begin, i in zip(self.shape, offset, [*reversed(index), 0]):
                at = at * size + begin + i
            self.data[at * item : at * item + run] = data[row * run : (row + 1) * run]

    def entry(self):
        return {"dtype": self.dtype, "shape": list(self.shape), "sha256": hashlib.sha256(self.data).hexdigest()}


class _Anything:
    """Replaces every class that a pickle names; keeps its constructor arguments."""

    def __init__(self, *args):
        self.args = args

    def __setstate__(self, state):
        self.state = state
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __hash__(self):
        return hash(repr(self._key()))

    def __eq__(self, other):
        return isinstance(other, _Anything) and self._key() == other._key()

    def _key(self):
        return (self.__dict__.get("fqn"), self.__dict__.get("offset"), self.__dict__.get("index"), self.__dict__.get("args"))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data, load=None):
        super().__init__(io.BytesIO(data))
        self.load_storage = load

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if (module, name) in (("builtins", "set"), ("builtins", "dict"), ("builtins", "list")):
            return getattr(__import__("builtins"), name)
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, shape, stride, *_: (storage, offset, tuple(shape), tuple(stride))
        if name == "Size":
            return tuple
        return type(name, (_Anything,), {"__module__": module})

    def persistent_load(self, what):
        return self.load_storage(what)


def _tensor_of_archive(data):
    """dtype, shape and C-order bytes of the one tensor in a torch.save archive."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    root = archive.namelist()[0].split("/")[0]

    def load(what):
        _, storage, key, _, _ = what
        return storage.__name__, archive.read(f"{root}/data/{key}")

    (kind, storage), begin, shape, stride = _Unpickler(archive.read(f"{root}/data.pkl"), load).load()
    dtype = STORAGES[kind]
    item = SIZES[dtype]
    run, axes = item, len(shape)  # bytes that are stored in a row, and the number of axes outside of them
    while axes > 0 and stride[axes - 1] * item == run:
        axes -= 1
        run *= shape[axes]
    out = bytearray()
    for indices in itertools.product(*map(range, shape[:axes])):
        at = (begin + sum(i * s for i, s in zip(indices, stride))) * item
        out += storage[at : at + run]
    return dtype, shape, bytes(out)


def _dtype_name(properties):
    """The torch dtype in a TensorProperties, however this version of torch pickled it."""
    for value in [properties.__dict__.get("dtype"), *(getattr(properties, "state", ()) or ())]:
        name = getattr(value, "__name__", None) or type(value).__name__
        if name in TORCH:
            return TORCH[name]
    raise ValueError(f"no dtype in {vars(properties)}")


def _file_inside(folder, name):
    path = (folder / name).resolve()
    assert folder.resolve() in path.parents, "a path leaves the checkpoint"
    return path.read_bytes()


def read_dcp(folder):
    """name -> Whole for tensors, name -> bytes for the other entries."""
    metadata = _Unpickler((folder / ".metadata").read_bytes()).load()
    tensors, objects = {}, {}
    items = metadata.state_dict_metadata
    for name, item in items.items():
        if type(item).__name__ == "TensorStorageMetadata":
            tensors[name] = Whole(_dtype_name(item.properties), item.size)
    files = {name: _file_inside(folder, name) for name in {info.relative_path for info in metadata.storage_data.values()}}
    for index, info in metadata.storage_data.items():
        data = files[info.relative_path][info.offset : info.offset + info.length]
        if index.fqn not in tensors:
            objects[index.fqn] = data
            continue
        dtype, shape, values = _tensor_of_archive(data)
        assert dtype == tensors[index.fqn].dtype, f"{index.fqn}: dtype of the piece"
        tensors[index.fqn].put(tuple(index.offset or ()), shape, values)
    return tensors, objects


def tensor_items(path):
    """(offset, length) of every torch.save archive in this .distcp file that holds a piece of a tensor."""
    metadata = _Unpickler((path.parent / ".metadata").read_bytes()).load()
    for index, info in metadata.storage_data.items():
        is_tensor = type(metadata.state_dict_metadata[index.fqn]).__name__ == "TensorStorageMetadata"
        if is_tensor and info.relative_path == path.name:
            yield info.offset, info.length


def read_safetensors(folder):
    """name -> Whole; reads every file of the folder, and joins the pieces from several files."""
    pieces = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        sharding = json.loads(header.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
        for name, item in header.items():
            begin, end = (8 + length + at for at in item["data_offsets"])
            offset = sharding.get(name, {}).get("saved_offsets", [0] * len(item["shape"]))
            pieces.setdefault(name, []).append((item["dtype"], offset, item["shape"], data[begin:end]))
    tensors = {}
    for name, parts in pieces.items():
        extents = [[o + s for o, s in zip(offset, shape)] for _, offset, shape, _ in parts]
        tensors[name] = Whole(SAFETENSORS[parts[0][0]], [max(ends) for ends in zip(*extents)])
        for _, offset, shape, data in parts:
            tensors[name].put(offset, shape, data)
    return tensors, {}


def _cropped(data, chunk, shape):
    """The first `shape` elements of each axis of `data`, which has the shape `chunk`."""
    if list(chunk) == list(shape):
        return data
    row = len(data) // chunk[0]
    return b"".join(_cropped(data[i * row : (i + 1) * row], chunk[1:], shape[1:]) for i in range(shape[0]))


def read_zarr(folder):
    """name -> Whole for arrays, name -> bytes for ShardedObjects."""
    tensors, objects = {}, {}
    for path in (path for path in folder.iterdir() if path.is_dir()):
        objects |= {f"{path.name}/{shard.stem}": shard.read_bytes() for shard in path.glob("shard_*.pt")}
        if not (path / ".zarray").exists():
            continue
        array = json.loads((path / ".zarray").read_text())
        shape, chunk = array["shape"], array["chunks"]
        assert array["compressor"] is None and array["order"] == "C", f"{path}: not plain chunks"
        whole = tensors[path.name] = Whole(ZARR[array["dtype"]], shape)
        for file in (file for file in path.iterdir() if file.name[0].isdigit()):
            offset = [int(i) * size for i, size in zip(file.name.split("."), chunk)]
            extent = [min(size, end - begin) for begin, size, end in zip(offset, chunk, shape)]
            whole.put(offset, extent, _cropped(file.read_bytes(), chunk, extent))
    return tensors, objects


def read(folder):
    """Tensors and other entries of a checkpoint of any of the four formats; its tracker file, if any, is followed."""
    folder = Path(folder)
    tracker = folder / "latest_checkpointed_iteration.txt"
    if tracker.exists():
        folder = folder / f"iter_{int(tracker.read_text()):07d}"
    if (folder / "metadata.json").exists() and json.loads((folder / "metadata.json").read_text())["sharded_backend"] == "zarr":
        return read_zarr(folder)
    return read_dcp(folder) if (folder / ".metadata").exists() else read_safetensors(folder)
