# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the number formats of tpx."""
from math import floor, log10


def rounded(value):
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def size_text(size):
    if size < 999.5:
        return f"{size:.0f} B"
    size, power = size / 1000, 0
    while size >= 999.5 and power < 5:
        size, power = size / 1000, power + 1
    return f"{rounded(size)} {'kMGTPE'[power]}B"


def rate_text(rate):
    return size_text(rate) + "/s"


def time_text(seconds):
    if seconds <= 0:
        return "0 s"
    for limit, scale, unit in ((0.9995e-3, 1e6, "us"), (0.9995, 1e3, "ms"), (119.5, 1, "s")):
        if seconds < limit:
            return f"{rounded(seconds * scale)} {unit}"
    whole = floor(seconds + 0.5)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = floor(seconds / 60 + 0.5)
    return f"{minutes // 60} h {minutes % 60:02} min"


def column_text(seconds, column):
    """Where all times of a column have one unit."""
    most, least = max(column), min((value for value in column if value > 0), default=0)
    units = ((1, "s"), (60, "min"), (3600, "h"))
    suiting = 0 if most < 119.5 else 1 if most < 7200 else 2
    size, unit = units[suiting - 1 if suiting > 0 and least < 0.1 * units[suiting][0] else suiting]
    before = [1 + floor(log10(value / size)) if value > 0 else 1 for value in (most, least)]
    decimals = min(3, max(0, 4 - before[0], 2 - before[1]), max(0, 6 - before[0]))
    return f"{seconds / size:.{decimals}f} {unit}"


TEXTS = {"bytes": size_text, "rate": rate_text, "seconds": time_text, "count": lambda count: f"{count:,}"}
