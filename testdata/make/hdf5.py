# SPDX-License-Identifier: Apache-2.0
"""hdf5.py FOLDER: small HDF5 checkpoints with every kind of type and storage, as h5py writes them, and files that must be
refused. Beside good/ lies a JSON file of what they hold. Needs h5py and numpy."""

import hashlib
import json
import os
import sys

import h5py
import numpy as np

NAMES = {"f": "f", "i": "i", "u": "u", "c": "c"}


class Maker:
    def __init__(self, path):
        self.tensors = {}
        self.file = h5py.File(path, "w")
        self.random = np.random.default_rng(3)

    def put(self, path, values, dtype=None, named=None, **storage):
        data = self.file.create_dataset(path, data=values, **storage)
        if named:
            data.attrs["dtype"] = named
        self.record(path, values, dtype)
        return data

    def record(self, path, values, dtype=None):
        """Records what a reader must find."""
        little = values.astype(values.dtype.newbyteorder("<"))
        kind = dtype or ("bool" if values.dtype.kind == "b" else f"{values.dtype.kind}{values.dtype.itemsize * 8}")
        self.tensors[path.replace("/", ".")] = {"dtype": kind, "shape": list(values.shape),
                                                "sha256": hashlib.sha256(little.tobytes()).hexdigest()}

    def real(self, *shape, dtype="<f4"):
        return self.random.standard_normal(shape).astype(dtype)

    def whole(self, *shape, dtype="<i4"):
        return self.random.integers(0, 100, shape).astype(dtype)


def make_types(path):
    m = Maker(path)
    m.file.attrs["step"] = 12
    m.file.attrs["config"] = json.dumps({"hidden_size": 6})
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        m.put("whole/" + kind, m.whole(3, 2, dtype="<" + kind))
        m.put("whole/big_" + kind, m.whole(3, 2, dtype=">" + kind))
    for kind in ("f2", "f4", "f8", "c8", "c16"):
        m.put("real/" + kind, m.real(5, dtype="<" + kind))
        m.put("real/big_" + kind, m.real(5, dtype=">" + kind))
    m.put("mask", m.whole(3, 3) % 2 == 1)
    m.put("scalar", np.array(7, "<i8"))
    m.put("none", np.zeros((0, 3), "<f4"))
    m.put("half/by_attribute", m.whole(4, 3, dtype="<u2"), "bf16", "bfloat16")
    m.put("half/big", m.whole(4, 3, dtype=">u2"), "bf16", "bfloat16")
    m.put("half/opaque", m.whole(4, 3, dtype="<u2").view("V2"), "bf16")
    m.put("quarter/e4m3", m.whole(4, dtype="u1"), "f8_e4m3", "float8_e4m3fn")
    m.put("quarter/e5m2", m.whole(4, dtype="u1"), "f8_e5m2", "float8_e5m2")
    m.file.create_dataset("words", data=["these", "are", "texts"])
    link = m.file["scalar"]
    m.file["hard"] = link
    m.file["soft"] = h5py.SoftLink("/scalar")
    for name in ("hard", "soft"):
        m.tensors[name] = m.tensors["scalar"]
    m.file.close()
    return m.tensors


def make_storage(path):
    m = Maker(path)
    m.put("chunked", m.real(7, 5), chunks=(3, 2))
    m.put("gzip", m.real(7, 5), chunks=(3, 2), compression="gzip")
    m.put("shuffled", m.real(9, 11), chunks=(4, 4), compression="gzip", shuffle=True)
    m.put("summed", m.real(9, 3, dtype="<f8"), chunks=(4, 2), fletcher32=True)
    m.put("all", m.real(6, 5, 4), chunks=(4, 2, 3), compression="gzip", shuffle=True, fletcher32=True)
    m.put("big", m.real(6, 5, dtype=">f8"), chunks=(4, 2), compression="gzip", shuffle=True)
    m.put("one_chunk", m.whole(40), chunks=(64,), maxshape=(None,), compression="gzip")
    m.put("odd_bytes", m.whole(9, dtype="u1"), chunks=(5,), fletcher32=True)
    # Never written: the fill value counts.
    m.put("unwritten", np.full((5, 2), 2.5, "<f4"))
    del m.file["unwritten"]
    m.file.create_dataset("unwritten", (5, 2), "<f4", fillvalue=2.5)
    some = np.full((6, 6), -1, ">i4")
    m.put("partly", some, chunks=(2, 2))
    del m.file["partly"]
    data = m.file.create_dataset("partly", (6, 6), ">i4", chunks=(2, 2), fillvalue=-1, compression="gzip")
    data[2:4, 2:4] = some[2:4, 2:4] = 5
    m.tensors["partly"]["sha256"] = hashlib.sha256(some.astype("<i4").tobytes()).hexdigest()
    # Compact, by the low-level interface.
    values = m.whole(4, 2, dtype=">i2")
    m.put("compact", values)
    del m.file["compact"]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(values.shape)
    made = h5py.h5d.create(m.file.id, b"compact", h5py.h5t.py_create(values.dtype), space, plist)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    # A chunk to which the filters were not applied.
    values = m.real(4)
    m.put("unfiltered_chunk", values, chunks=(4,), compression="gzip")
    m.file["unfiltered_chunk"].id.write_direct_chunk((0,), values.tobytes(), filter_mask=1)
    m.file.close()
    return m.tensors


def make_lzf(path):
    m = Maker(path)
    m.put("zeros", np.zeros((5, 40), "<f4"), compression="lzf")
    m.put("whole", m.whole(9, 11), chunks=(4, 4), compression="lzf")
    m.put("shuffled", m.whole(700, dtype="<i8"), compression="lzf", shuffle=True)
    m.put("all", m.real(6, 5, 4), chunks=(4, 2, 3), compression="lzf", shuffle=True, fletcher32=True)
    m.put("random", m.real(40), compression="lzf")  # larger when compressed, so h5py skips the filter
    m.put("big", m.whole(6, 50, dtype=">i4"), compression="lzf", shuffle=True)
    m.put("far", np.tile(m.whole(1500, dtype="<i4"), 3), chunks=(4500,), compression="lzf")
    m.file.close()
    return m.tensors


def make_scaleoffset(path):
    """Datasets with libhdf5's scale-offset filter, and the values that libhdf5 reads from them: reals lose precision."""
    m = Maker(path)

    def put(name, values, fill=None, **options):
        m.file.create_dataset(name, data=values, dtype=values.dtype, fillvalue=fill, **options)

    few = np.random.default_rng(5).integers(-100, 900, (7, 9))
    for kind in ("i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8"):
        values = np.abs(few).astype(kind) if "u" in kind else few.astype(kind)
        put(f"whole{kind[-2:]}{'big' if '>' in kind else ''}", values, scaleoffset=0, chunks=(3, 4))
    put("filled", np.where(few < 0, -77, few).astype("<i4"), fill=-77, scaleoffset=0, chunks=(4, 4))
    put("filledbig", np.where(few < 0, -77, few).astype(">i2"), fill=-77, scaleoffset=0, chunks=(4, 4))
    put("equal", np.full((40, 50), 12, "<i4"), scaleoffset=0)
    put("zeros", np.zeros(40, "<i8"), scaleoffset=0)
    put("lossy", few.astype("<i4"), scaleoffset=6)
    put("unchanged", few.astype("<i4"), scaleoffset=32)
    put("wide", np.array([-(2**63), 2**63 - 1, 0, 5], "<i8"), scaleoffset=0)
    real = np.random.default_rng(6).standard_normal((9, 11)) * 30
    for kind in ("<f4", ">f4", "<f8", ">f8"):
        put(f"real{kind[-2:]}{'big' if '>' in kind else ''}", real.astype(kind), scaleoffset=3, chunks=(4, 5))
    put("realfilled", np.where(real < 0, 2.5, real).astype("<f4"), fill=2.5, scaleoffset=2)
    put("compressed", few.astype("<i4"), scaleoffset=0, chunks=(4, 4), compression="gzip")
    put("all", few.astype("<i8"), scaleoffset=0, chunks=(4, 4), shuffle=True, compression="lzf")
    m.file.close()
    with h5py.File(path) as stored:  # an open file may still have the values before they lost precision
        for name in stored:
            m.record(name, stored[name][...])
    return m.tensors


def make_unread(path):
    """Links to nothing, and attributes with references to objects."""
    m = Maker(path)
    m.put("w", m.real(4, 3))
    m.put("axis", m.real(3))
    m.file["axis"].make_scale("columns")
    m.file["w"].dims[1].attach_scale(m.file["axis"])
    m.file["w"].attrs["scale"] = 2.5
    m.file["g/gone"] = h5py.SoftLink("/absent/w")
    m.file["g/chain"] = h5py.SoftLink("/g/gone")
    m.file["linked"] = h5py.SoftLink("/w")
    m.record("linked", m.file["w"][...])
    m.file.close()
    return m.tensors


def make_corrupt(folder):
    refusals = {}

    def file(name, cause, **options):
        refusals[name] = cause
        return h5py.File(os.path.join(folder, name), "w", **options)

    with file("nbit.h5", "dataset 'w': is stored with the filter 'nbit' (number 5)") as f:
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_precision(9)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((9,))
        plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_MANDATORY, ())
        h5py.h5d.create(f.id, b"w", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((9,)), plist)
    with file("external_link.h5", "'w': is a link to another file") as f:
        f["w"] = h5py.ExternalLink("other.h5", "/w")
    with file("soft_to_external.h5", "is a link") as f:
        f["v"] = h5py.SoftLink("/w")
        f["w"] = h5py.ExternalLink("external_link.h5", "/w")
    with file("external_storage.h5", "dataset 'w': is stored in other files") as f:
        f.create_dataset("w", (4,), "<f4", external=[("/etc/hostname", 0, 16)])
    with file("virtual.h5", "dataset 'w': is a virtual dataset", libver=("v110", "v110")) as f:
        layout = h5py.VirtualLayout((4,), "<f4")
        layout[:] = h5py.VirtualSource("storage.h5", "chunked", (4,))
        f.create_virtual_dataset("w", layout)
    with file("soft_circle.h5", "'a': is a link to another file, or in a circle") as f:
        f["a"] = h5py.SoftLink("/b")
        f["b"] = h5py.SoftLink("/a")
    with file("group_circle.h5", "group 'g/again': contains itself") as f:
        g = f.create_group("g")
        g["again"] = g
    with file("two_names.h5", "a second tensor is called 'a.b'") as f:
        f["a/b"] = np.zeros(2)
        f["a.b"] = np.zeros(2)
    for name, chunks in (("unwritten.h5", None), ("unwritten_chunks.h5", (1 << 20,))):
        with file(name, "tensor 'w': 4.61 EB were never written") as f:
            f.create_dataset("w", (1 << 60,), "<f4", chunks=chunks)
    with file("flipped_chunk.h5", "") as f:
        f.create_dataset("w", data=np.arange(64.0), chunks=(64,), compression="gzip")
        offset = f["w"].id.get_chunk_info(0).byte_offset
    refusals.pop("flipped_chunk.h5")
    path = os.path.join(folder, "flipped_chunk.h5")
    content = bytearray(open(path, "rb").read())
    content[offset + 20] ^= 0xFF
    open(path, "wb").write(content)
    whole = open(os.path.join(folder, "two_names.h5"), "rb").read()
    open(os.path.join(folder, "truncated.h5"), "wb").write(whole[: len(whole) // 2])
    refusals["truncated.h5"] = "is not a whole HDF5 file"
    return refusals


def main(folder):
    good, corrupt = os.path.join(folder, "hdf5/good"), os.path.join(folder, "hdf5/corrupt")
    for place in (good, corrupt):
        os.makedirs(place, exist_ok=True)
    for name, make in (("types", make_types), ("storage", make_storage), ("lzf", make_lzf), ("scaleoffset", make_scaleoffset),
                       ("unread", make_unread)):
        tensors = make(os.path.join(good, name + ".h5"))
        with open(os.path.join(good, name + ".json"), "w", encoding="utf-8") as out:
            json.dump({"tensors": tensors}, out, indent=1, sort_keys=True)
            out.write("\n")
    with open(os.path.join(folder, "hdf5/corrupt.json"), "w", encoding="utf-8") as out:
        json.dump(make_corrupt(corrupt), out, indent=1, sort_keys=True)
        out.write("\n")
    # Behind a user block addresses count from somewhere else.
    with h5py.File(os.path.join(good, "types.h5"), "r") as source, \
            h5py.File(os.path.join(good, "user_block.h5"), "w", userblock_size=1024) as out:
        for name in ("whole/i4", "scalar"):
            out[name] = source[name][()]
        out.create_dataset("chunked", data=source["whole/i4"][()], chunks=(2, 2), compression="gzip")


if __name__ == "__main__":
    main(sys.argv[1])
