# SPDX-License-Identifier: Apache-2.0
"""change.py FILE [KEY=VALUE | OLD VALUE]: changes a file of torch.save; the archive is as whole as it was. KEY=VALUE sets the
ints of one or two bytes that follow KEY; OLD VALUE replaces every float that is OLD. Without them, iteration, the optimizer's
step and an argument of Megatron's common.pt are changed by one bit."""
import re
import struct
import sys
import zipfile


def ints(data, key, change):
    # The key, where it is remembered, and an int of one or two bytes.
    found = list(re.finditer(re.escape(key) + b"(q.|r....|\x94|)(K.|M..)", data, re.DOTALL))
    assert found, key
    for match in found:
        size = len(match[2]) - 1
        at = match.end() - size
        value = change(int.from_bytes(data[at : at + size], "little"))
        data = data[:at] + value.to_bytes(size, "little") + data[at + size :]
    return data


def changed(data, words):
    if len(words) == 2:
        old, new = (b"G" + struct.pack(">d", float(word)) for word in words)
        assert old in data, words
        return data.replace(old, new)
    if words:
        key, value = words[0].split("=")
        return ints(data, key.encode(), lambda _: int(value))
    for key in (b"iteration", b"step", b"max_position_embeddings"):
        data = ints(data, key, lambda value: value ^ 1)
    return data


path = sys.argv[1]
source = zipfile.ZipFile(path)
members = [(info, source.read(info)) for info in source.infolist()]
with zipfile.ZipFile(path, "w") as target:
    for info, data in members:
        if info.filename.endswith("data.pkl"):
            data = changed(data, sys.argv[2:])
        target.writestr(zipfile.ZipInfo(info.filename), data)
