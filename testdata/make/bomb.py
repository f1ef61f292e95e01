# SPDX-License-Identifier: Apache-2.0
"""bomb.py FILE: writes a torch.save file whose one tensor, a gibibyte of zeros, is compressed to a megabyte."""
import struct
import sys
import zipfile

ELEMENTS = 1 << 28
pickle = (
    b"\x80\x02}X\x01\0\0\0tctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ"
    + struct.pack("<i", ELEMENTS) + b"tQK\0J" + struct.pack("<i", ELEMENTS) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs.")
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_STORED) as file:
    file.writestr("bomb/data.pkl", pickle)
    file.writestr("bomb/byteorder", "little")
    file.writestr("bomb/version", "3\n")
    entry = zipfile.ZipInfo("bomb/data/0")
    entry.compress_type = zipfile.ZIP_DEFLATED
    with file.open(entry, "w") as member:
        for _ in range(ELEMENTS >> 20):
            member.write(bytes(4 << 20))
