#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/torch: small torch.save files, good ones and broken ones. Python 3, nothing else.

usage: python3 testdata/make/torch.py testdata/torch
"""

import collections
import io
import pathlib
import pickle as python_pickle
import struct
import sys
import zipfile
import zlib

# A pickle of protocol 2, put together by hand.


def text(s):
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def number(n):
    if 0 <= n < 256:
        return b"K" + bytes([n])
    size = n.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + n.to_bytes(size, "little", signed=True)


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def group(*items):
    return b"(" + b"".join(items) + b"t"


def mapping(**entries):
    return b"}(" + b"".join(text(k) + v for k, v in entries.items()) + b"u"


def pickle(body):
    return b"\x80\x02" + body + b"."


ORDERED = name("collections", "OrderedDict") + b")R"


def storage(key="0", kind="FloatStorage", count=6, legacy=False):
    view = [b"N"] if legacy else []
    return group(text("storage"), name("torch", kind), text(key), text("cpu"), number(count), *view) + b"Q"


def tensor(shape=(2, 3), strides=(3, 1), offset=0, bits=None, **of):
    dimensions = [group(*map(number, d)) for d in (shape, strides)]
    metadata = [mapping(**{bits: b"\x88"})] if bits else []
    return (name("torch._utils", "_rebuild_tensor_v2")
            + group(storage(**of), number(offset), *dimensions, b"\x89", ORDERED, *metadata) + b"R")


def signs(order, turned, method):
    """Three complex numbers and four real ones; when turned, as conj() and the neg bit keep them."""
    conj, neg, sign = ("conj", "neg", -1) if turned else (None, None, 1)
    complex_numbers = dict(kind="ComplexFloatStorage", count=3, key="0", bits=conj)
    body = mapping(z=tensor((3,), (1,), **complex_numbers), z2=tensor((2,), (2,), **complex_numbers),
                   x=tensor((2, 2), (1, 2), kind="DoubleStorage", count=4, key="1", bits=neg))
    records = {"data/0": struct.pack(f"{order}6f", *(a * b for a, b in zip((1, sign) * 3, range(1, 7)))),
               "data/1": struct.pack(f"{order}4d", *(sign * v for v in (0.5, -2.0, 3.0, 0.0)))}
    return archive(body, records, method, byteorder=b"big" if order == ">" else b"little")


PAYLOAD = struct.pack("<6f", 0, 1, 2, 3, 4, 5)
PLAIN = mapping(w=tensor(), t=tensor((3, 2), (1, 3)), row=tensor((3,), (1,), 3), step=number(7), run=text("é"))


def archive(body, records={"data/0": PAYLOAD}, method=zipfile.ZIP_STORED, root="archive", **more):
    """A zip with sizes in its local headers."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for entry, content in {"data.pkl": pickle(body), **records, "version": b"3\n", **more}.items():
            z.writestr(zipfile.ZipInfo(f"{root}/{entry}"), content, method)
    return out.getvalue()


def as_torch_writes(body):
    """Sizes behind the content, which starts at multiples of 64; a zip64 end though nothing is large."""
    out, directory = b"", b""
    for entry, content in {"data.pkl": pickle(body), "byteorder": b"little", "data/0": PAYLOAD, "version": b"3\n"}.items():
        entry = f"plain/{entry}".encode()
        header, crc = len(out), zlib.crc32(content)
        padding = -(header + 30 + len(entry) + 4) % 64
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0x0808, 0, 0, 0, 0, 0, 0, len(entry), 4 + padding) + entry
        out += b"FB" + struct.pack("<H", padding) + b"Z" * padding + content
        out += struct.pack("<IIII", 0x08074B50, crc, len(content), len(content))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, 0x0808, 0, 0, 0, crc, len(content), len(content),
                                 len(entry), 0, 0, 0, 0, 0, header) + entry
    start, end = len(out), len(out) + len(directory)
    return (out + directory + struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 4, 4, len(directory), start)
            + struct.pack("<IIQI", 0x07064B50, 0, end, 1)
            + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 4, 4, len(directory), start, 0))


def stream(magic=0x1950A86A20F9469CFC6C, count=6):
    sizes = mapping(short=number(2), int=number(4), long=number(4))
    parts = [number(magic), number(1001), mapping(protocol_version=number(1001), little_endian=b"\x88", type_sizes=sizes),
             mapping(w=tensor(legacy=True), step=number(7)), b"](" + text("0") + b"e"]
    return b"".join(map(pickle, parts)) + struct.pack("<q", count) + PAYLOAD


def call(module, attribute, *args):
    return mapping(w=name(module, attribute) + group(*args) + b"R")


OBJECTS = mapping(
    args=name("argparse", "Namespace") + b")\x81" + mapping(tp=number(2), lr=b"G" + struct.pack(">d", 0.5)) + b"b",
    names=name("__builtin__", "set") + group(b"](" + text("a") + text("b") + b"e") + b"R",
    raw=name("_codecs", "encode") + group(text("\x00ÿ"), text("latin1")) + b"R",
    kind=name("__builtin__", "getattr") + group(name("some.enums", "ModelType"), text("decoder")) + b"R",
    size=name("torch", "Size") + group(group(number(2), number(3))) + b"R",
    dtype=name("torch", "bfloat16"),
    big=number(2**70))


def overlapping():
    data = bytearray(archive(PLAIN))
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"archive/version"))
    header = data.index(b"PK\x03\x04", 1)  # where data/0 is, too
    data[entry + 42:entry + 46] = struct.pack("<I", header)
    return bytes(data)


def inflating(size):
    """The directory promises that data.pkl inflates to `size` bytes."""
    data = bytearray(archive(PLAIN, method=zipfile.ZIP_DEFLATED))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24:entry + 28] = struct.pack("<I", size)
    return bytes(data)


def twice():
    data = archive(PLAIN, {"data/0": PAYLOAD, "data/1": PAYLOAD})
    return data.replace(b"archive/data/1", b"archive/data/0")


def shared_dicts(depth=40):
    """Dicts that each name the next one four times: depth of them in the file, 4**depth places."""
    value = {"end": 0}
    for _ in range(depth):
        value = dict.fromkeys("abcd", value)
    return archive(python_pickle.dumps(value, 2)[2:-1], {})


GOOD = {
    "plain.pt": as_torch_writes(PLAIN),
    "deflated.pt": archive(PLAIN, method=zipfile.ZIP_DEFLATED),
    "legacy.pt": stream(),
    "objects.pt": archive(OBJECTS, {}),
    "shared-dicts.pt": shared_dicts(),
    "signs.pt": signs("<", False, zipfile.ZIP_STORED),
    "signs-turned.pt": signs("<", True, zipfile.ZIP_STORED),
    "signs-big-endian.pt": signs(">", True, zipfile.ZIP_DEFLATED),
}
CORRUPT = {
    "call-system.pt": archive(call("posix", "system", text("true"))),
    "call-eval.pt": archive(call("__builtin__", "eval", text("1"))),
    "call-getattr.pt": archive(call("__builtin__", "getattr", name("torch", "serialization"), text("os"))),
    "stack-underflow.pt": archive(b"\x86"),
    "long-string.pt": archive(b"X\xf0\xff\xff\xff"),
    "no-stop.pt": archive(b"}" * 3).replace(b"}}}.", b"}}}}"),
    "record-short.pt": archive(PLAIN, {"data/0": PAYLOAD[:-1]}),
    "record-missing.pt": archive(PLAIN, {}),
    "no-version.pt": archive(PLAIN).replace(b"archive/version", b"archive/Version"),
    "beyond-storage.pt": archive(mapping(w=tensor((2, 3), (4, 1)))),
    "negative-stride.pt": archive(mapping(w=tensor((2, 3), (-3, 1)))),
    "huge-shape.pt": archive(mapping(w=tensor((2**40, 2**40), (1, 1)))),
    "many-dimensions.pt": archive(mapping(w=tensor((1,) * 9, (1,) * 9))),
    "two-roots.pt": archive(PLAIN).replace(b"archive/version", b"another/version"),
    "truncated.pt": archive(PLAIN)[:-30],
    "overlap.pt": overlapping(),
    "twice.pt": twice(),
    "inflates-to-more.pt": inflating(2**20),
    "payload-changed.pt": archive(PLAIN).replace(PAYLOAD, bytes(24)),
    "legacy-magic.pt": stream(magic=0x1950A86A20F9469CFC6D),
    "legacy-count.pt": stream(count=2**40),
    "empty.pt": b"",
}


# One value in every protocol of Python's own pickler, whose objects say the same in all of them.
VALUE = {
    "ints": [0, -1, 255, 65536, -2**31, 2**40, -2**63, 2**70, -2**70],
    "texts": ("", "é中\U0001f600", "line\nend\\"),
    "bytes": [b"", bytes(range(256))],
    "floats": [0.5, -1e300, float("inf")],
    "flags": [True, False, None],
    "sets": [{7}, frozenset([8]), set()],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "ordered": collections.OrderedDict(b=1, a=2),
    (1, "key"): {},
}
VALUE["shared"] = [VALUE["ints"], VALUE["ints"]]


# Six stored elements, expanded to 268 MB and to 4 TB.
EXPANDED = {
    "near.pt": archive(mapping(w=tensor((2**25, 2), (0, 1)))),
    "far.pt": archive(mapping(w=tensor((2**40,), (0,)))),
}


def main():
    out = pathlib.Path(sys.argv[1])
    for folder, files in (("good", GOOD), ("corrupt", CORRUPT), ("expanded", EXPANDED)):
        (out / folder).mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (out / folder / file).write_bytes(content)
    (out / "pickles").mkdir(exist_ok=True)
    for protocol in range(6):
        (out / "pickles" / f"protocol{protocol}.pkl").write_bytes(python_pickle.dumps(VALUE, protocol))


if __name__ == "__main__":
    main()
