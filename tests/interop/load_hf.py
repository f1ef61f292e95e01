# SPDX-License-Identifier: Apache-2.0
"""Loads a directory with safetensors and with transformers, as a user does."""
import glob
import json
import os

import transformers
from safetensors import safe_open

from digests import differences, entry


def _in_files(directory, faults):
    """Entries of the tensors in the files, and whether the index contains each of them."""
    found, files = {}, {}
    for path in sorted(glob.glob(f"{directory}/*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                if name in found:
                    faults.append(f"in two files: {name}")
                found[name] = entry(file.get_tensor(name))
                files[name] = os.path.basename(path)
    index = f"{directory}/model.safetensors.index.json"
    if os.path.exists(index):
        with open(index) as file:
            if json.load(file)["weight_map"] != files:
                faults.append("the index does not say what the files hold")
    elif len(set(files.values())) != 1:
        faults.append(f"{len(set(files.values()))} files and no index")
    return found


def check(directory, digests):
    """Faults of the files, or of the model that transformers loads from them."""
    faults = []
    found = _in_files(directory, faults)
    faults += differences(found, digests["tensors"])

    config = transformers.AutoConfig.from_pretrained(directory)
    model_class = getattr(transformers, config.architectures[0])
    model, info = model_class.from_pretrained(directory, output_loading_info=True, dtype="auto")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(kind):
            faults.append(f"transformers: {kind}: {sorted(map(str, info[kind]))[:3]}")
    loaded = {name: entry(tensor) for name, tensor in model.state_dict().items()}
    expected = dict(digests["tensors"])
    if config.tie_word_embeddings:
        expected["lm_head.weight"] = expected["model.embed_tokens.weight"]
    return faults + [f"transformers: {line}" for line in differences(loaded, expected)]
