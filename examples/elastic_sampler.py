#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the samples that a rank trains on from tpx.data.json, which `tpx migrate --data` writes and tpx-data(5) describes.

    position = DataPosition.read(os.environ["TPX_STATE"] + "/tpx.data.json")
    for node, indices in position.batch(step, int(os.environ["RANK"])):  # one forward and backward pass for each
        ...

Pass an ElasticSampler to torch.utils.data.DataLoader as batch_sampler=; this file itself does not require torch.
`elastic_sampler.py tpx.data.json FIRST LAST` prints the samples at positions FIRST to LAST - 1.
"""
import bisect
import itertools
import json
import os
import sys

MASK = (1 << 64) - 1


def splitmix64(state):
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def check(document):
    """Raises ValueError unless `document` contains the keys that DataPosition reads."""
    if not isinstance(document, dict):
        raise ValueError("is not a JSON object")
    least = {"samples": 1, "seed": 0, "global_batch": 1, "consumed": 0}
    for key, smallest in least.items():
        if not isinstance(document.get(key), int) or document[key] < smallest:
            raise ValueError(f"{key!r} must be a whole number of at least {smallest}; is this a tpx.data.json?")
    for key in ("files", "ranks"):
        if not isinstance(document.get(key), list):
            raise ValueError(f"{key!r} must be a list; is this a tpx.data.json?")


class DataPosition:
    def __init__(self, document):
        self.document = document
        self.samples, self.seed = document["samples"], document["seed"]
        self.global_batch, self.consumed = document["global_batch"], document["consumed"]
        self.half_bits = max(4, ((self.samples - 1).bit_length() + 1) // 2)
        self.ends = list(itertools.accumulate(file["samples"] for file in document["files"]))
        self.keys = {}  # by epoch

    @classmethod
    def read(cls, path):
        """The position in a file that tpx wrote. Raises ValueError "PATH: cause" for other files."""
        with open(path, encoding="utf-8") as file:
            try:
                document = json.load(file)
                check(document)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        return cls(document)

    def sample_at(self, position):
        """The sample at `position`, which counts the samples of all epochs from 0."""
        epoch, number = divmod(position, self.samples)
        if epoch not in self.keys:
            base = splitmix64((splitmix64(self.seed) + epoch) & MASK)
            self.keys[epoch] = [splitmix64((base + k) & MASK) for k in range(4)]
        mask = (1 << self.half_bits) - 1
        while True:
            left, right = number >> self.half_bits, number & mask
            for key in self.keys[epoch]:
                left, right = right, left ^ (splitmix64((key + right) & MASK) & mask)
            number = left << self.half_bits | right
            if number < self.samples:
                return number

    def batch(self, step, rank):
        """Yields (virtual node, samples) of `rank` in the global batch that is `step` steps after the recorded position."""
        start = self.consumed + step * self.global_batch
        for node in self.document["ranks"][rank]["virtual_nodes"]:
            begin, end = node["samples"]
            yield node["number"], [self.sample_at(start + k) for k in range(begin, end)]

    def file_of(self, sample):
        """(path, number of the sample in this file); only if the data position lists files."""
        number = bisect.bisect_right(self.ends, sample)
        return self.document["files"][number]["path"], sample - (self.ends[number - 1] if number else 0)

    def advanced(self, steps):
        """The content of tpx.data.json to store in a checkpoint after `steps` more global batches."""
        consumed = self.consumed + steps * self.global_batch
        epoch, cursor = divmod(consumed, self.samples)
        ranks = [dict(rank, next_positions=[consumed + k for k in rank["samples"]]) for rank in self.document["ranks"]]
        return dict(self.document, consumed=consumed, epoch=epoch, cursor=cursor, ranks=ranks)


class ElasticSampler:
    """Yields, for each step, one list of samples for each virtual node of `rank`."""

    def __init__(self, position, rank, steps):
        self.position, self.rank, self.steps = position, rank, steps

    def __len__(self):
        return self.steps * len(self.position.document["ranks"][self.rank]["virtual_nodes"])

    def __iter__(self):
        for step in range(self.steps):
            for _, samples in self.position.batch(step, self.rank):
                yield samples


def main(arguments):
    usage = "usage: elastic_sampler.py tpx.data.json FIRST LAST"
    if len(arguments) != 3:
        sys.exit(usage)
    path, *range_of_positions = arguments
    if not all(text.isascii() and text.isdigit() for text in range_of_positions):
        sys.exit(f"{usage}\nelastic_sampler.py: FIRST and LAST must be whole numbers, not {' and '.join(range_of_positions)}")
    first, last = map(int, range_of_positions)
    if first > last:
        sys.exit(f"elastic_sampler.py: FIRST, {first}, is greater than LAST, {last}")
    try:
        data = DataPosition.read(path)
        for place in range(first, last):
            print(data.sample_at(place))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"elastic_sampler.py: {path}: {error.strerror}")
    except ValueError as error:
        sys.exit(f"elastic_sampler.py: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
