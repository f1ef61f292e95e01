# SPDX-License-Identifier: Apache-2.0
"""Writes `tuple`, a DCP checkpoint with tensors in a list and in a tuple, which PyTorch stores as an object.

Usage: python3 -P testdata/make/dcp_tuple.py OUT
"""
import sys

import torch
import torch.distributed.checkpoint as dcp

state = {"weight": torch.arange(6.0).reshape(2, 3), "average": [torch.arange(4.0), (torch.arange(3.0), {"x": torch.ones(2)})]}
dcp.save(state, checkpoint_id=f"{sys.argv[1]}/tuple", no_dist=True)
