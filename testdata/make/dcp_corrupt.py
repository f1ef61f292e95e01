#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/dcp/planner-list and testdata/dcp/huge: `python3 -P dcp_corrupt.py testdata/dcp` (torch >= 2.6).

Two tensors and a value as PyTorch's DCP saves them on one rank; then, in .metadata, planner_data is a list instead of a
dict, or a tensor has 2^60 elements, of which four are stored.
"""
import pickle
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp


def make(folder, edit):
    dcp.save({"model": {"w": torch.ones(4), "v": torch.ones(2, 3)}, "lr": [1, 2.0]}, checkpoint_id=folder)
    path = folder / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    edit(metadata)
    path.write_bytes(pickle.dumps(metadata))


def grow(metadata):
    metadata.state_dict_metadata["model.w"].size = torch.Size([1 << 60])


make(Path(sys.argv[1]) / "planner-list", lambda metadata: setattr(metadata, "planner_data", [1, 2]))
make(Path(sys.argv[1]) / "huge", grow)
