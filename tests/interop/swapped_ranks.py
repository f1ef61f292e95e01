# SPDX-License-Identifier: Apache-2.0
"""If two tensor-parallel ranks exchange all their shards, the model computes the same logits, because ranks compute independently
and their results are summed. If the rules give a rank shards that do not belong together, the logits change."""
import shutil
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.metadata import MetadataIndex


def _exchanged(value, pieces):
    """The tensor with the pieces of rank 0 and of rank 1 exchanged; None if the ranks have pieces of other sizes."""
    (theirs, ours) = (sorted(pieces[rank]) for rank in (0, 1))
    if [sizes for _, sizes in theirs] != [sizes for _, sizes in ours]:
        return None
    out = value.clone()
    for one, other in zip(theirs, ours):
        at = [tuple(slice(begin, begin + size) for begin, size in zip(*piece)) for piece in (one, other)]
        out[at[0]], out[at[1]] = value[at[1]], value[at[0]]
    return out


def exchange(model, split, out):
    """Writes `model` to `out` with the shards of two ranks exchanged, which are those of `split`, its tp=2 in DCP. Returns how many
    tensors changed; those that the ranks share unequally, as embeddings with an odd vocabulary, stay."""
    metadata = dcp.FileSystemReader(split).read_metadata()
    tensors, changed = {}, 0
    for file in Path(model).glob("*.safetensors"):
        tensors.update(load_file(file))
    for name, value in tensors.items():
        pieces = {0: [], 1: []}
        for chunk in metadata.state_dict_metadata[name].chunks:
            place = metadata.storage_data[MetadataIndex(name, chunk.offsets)].relative_path
            pieces[int(place.split("_")[2])].append((tuple(chunk.offsets), tuple(chunk.sizes)))
        other = _exchanged(value, pieces) if pieces[0] and pieces[1] else None
        if other is not None:
            tensors[name] = other
            changed += 1
    out.mkdir()
    save_file({name: value.contiguous() for name, value in tensors.items()}, out / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(Path(model) / "config.json", out)
    return changed


def enlarged(model):
    """The model with larger weights, so that each of them matters for the logits."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(8)
    return model


def same(one, other):
    """Whether logits differ only as much as sums in a different order."""
    return torch.allclose(one, other, rtol=1e-4, atol=2e-5 * float(one.abs().max()))
