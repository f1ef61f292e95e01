# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save that tpx writes: torch loads them with weights_only=True, and their content equals that of their
sources."""
import os
import subprocess
import tempfile
from pathlib import Path

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata"
FIXTURES = Path(os.environ.get("TPX_FIXTURES", ROOT / "../shared/fixtures"))


def difference(a, b, path=""):
    """Where two trees of objects differ, or None."""
    if torch.is_tensor(a):
        if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
            return f"{path}: {type(a).__name__} {a.dtype} {tuple(a.shape)}, {b if not torch.is_tensor(b) else b.dtype}"
        if a.is_quantized:
            if (a.q_scale(), a.q_zero_point()) != (b.q_scale(), b.q_zero_point()):
                return f"{path}: other scales"
            a, b = a.int_repr(), b.int_repr()
        flat = [t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format) for t in (a, b)]
        return None if bytes(flat[0].untyped_storage()) == bytes(flat[1].untyped_storage()) else f"{path}: other values"
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} is {type(b).__name__}"
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: other keys or another order"
        found = (difference(a[key], b[key], f"{path}.{key}") for key in a)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{path}: {len(a)} elements are {len(b)}"
        found = (difference(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
    else:
        return None if a == b or (a != a and b != b) else f"{path}: {a!r} is {b!r}"
    return next((line for line in found if line), None)


def tied(tree):
    """Which tensors of a flat dict share a storage."""
    groups = {}
    for name, tensor in tree.items() if isinstance(tree, dict) else ():
        if torch.is_tensor(tensor) and tensor.numel() > 0:
            groups.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return sorted(names for names in groups.values() if len(names) > 1)


def reshard(tpx, source, out, form="torch"):
    command = [tpx, "reshard", str(source), str(out), "--to", "tp=1", "--format", form, "--verify"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def check_copy(tpx, source, folder):
    """A file of torch.save converted from another one, in both forms."""
    was = torch.load(source, weights_only=False)
    try:
        torch.load(source, weights_only=True)
        only = True
    except Exception as error:  # classes, or protocols after 2, which the new file does not have
        only = "protocol" in source.name
    for form in ("torch", "torch-legacy"):
        out = Path(folder) / form
        refused = reshard(tpx, source, out, form)
        if refused:
            return refused
        if (out.read_bytes()[:2] == b"PK") != (form == "torch"):
            return f"{form}: is of the other form"
        now = torch.load(out, weights_only=only)
        found = difference(was, now) or (tied(was) != tied(now) and "other ties")
        if found:
            return f"{form}: {found}"
    return None


def check_dcp(tpx, source, folder):
    """PyTorch's own conversion of a DCP checkpoint."""
    out, own = Path(folder) / "out.pt", Path(folder) / "own.pt"
    refused = reshard(tpx, source, out)
    if refused:
        return refused
    dcp_to_torch_save(source, own)
    was = torch.load(own, weights_only=False)
    return difference_of_sorted(was, torch.load(out, weights_only=True))


def check_to_dcp(tpx, source, folder):
    """A file of torch.save, converted to a DCP checkpoint of two ranks, which PyTorch converts back."""
    out, again = Path(folder) / "dcp", Path(folder) / "again.pt"
    command = [tpx, "reshard", str(source), str(out), "--to", "fsdp=2", "--format", "dcp", "--dialect", "keep"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    dcp_to_torch_save(out, again)
    was, now = (torch.load(path, weights_only=False) for path in (source, again))
    return difference_of_sorted(with_text_keys(was), with_text_keys(now))


def with_text_keys(tree):
    """Turns keys of dicts into text, because DCP has no numeric keys."""
    if isinstance(tree, dict):
        return {str(key): with_text_keys(value) for key, value in tree.items()}
    return [with_text_keys(value) for value in tree] if isinstance(tree, list) else tree


def difference_of_sorted(a, b):
    def sort(tree):
        if isinstance(tree, dict):
            return {key: sort(tree[key]) for key in sorted(tree)}
        return [sort(item) for item in tree] if isinstance(tree, list) else tree

    return difference(sort(a), sort(b))


def check_weights(tpx, source, folder):
    """A flat dict of a model stored in safetensors."""
    from safetensors.torch import load_file

    out = Path(folder) / "out.pt"
    refused = reshard(tpx, source, out)
    return refused or difference_of_sorted(load_file(source / "model.safetensors"), torch.load(out, weights_only=True))


def check_module(tpx, form, folder):
    """A whole module, as torch.save stored it before and since version 1.6; streams also contain the source of its
    class."""
    was = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    source, out = Path(folder) / "module.pt", Path(folder) / "out.pt"
    torch.save(was, source, _use_new_zipfile_serialization=form.name == "torch")
    refused = reshard(tpx, source, out, form.name)
    if refused:
        return refused
    now = torch.load(out, weights_only=False)
    return f"is a {type(now)}" if type(now) is not type(was) else difference(was.state_dict(), now.state_dict())


class Own(torch.Tensor):
    """A tensor class that stores its elements itself."""


def check_classes_of(tpx, form, folder):
    """Classes and attributes of tensors and parameters survive in both forms."""
    plain = torch.arange(6.0).reshape(2, 3)
    own = plain.clone().as_subclass(Own)
    own.unit = "m"
    part = own[1:]
    part.unit = ["part"]
    parameter = torch.nn.Parameter(plain + 3)
    parameter.tag = {"a": 1}
    was = {"own": own, "part": part, "buffer": torch.nn.Buffer(plain + 1, persistent=False), "parameter": parameter,
           "of_own": torch.nn.Parameter((plain + 2).as_subclass(Own)), "plain": plain}
    torch.save(was, Path(folder) / "in.pt", _use_new_zipfile_serialization=form.name == "torch")
    refused = reshard(tpx, Path(folder) / "in.pt", Path(folder) / "out.pt", form.name)
    if refused:
        return refused
    now = torch.load(Path(folder) / "out.pt", weights_only=False)
    for name, tensor in was.items():
        if type(now[name]) is not type(tensor) or vars(now[name]) != vars(tensor):
            return f"{name}: {type(now[name])} {vars(now[name])} instead of {type(tensor)} {vars(tensor)}"
        if not torch.equal(now[name].as_subclass(torch.Tensor), tensor.as_subclass(torch.Tensor)):
            return f"{name}: other values"
    return None if tied(was) == tied(now) else "other ties"


def cases():
    yield check_classes_of, Path("classes/torch")
    yield check_classes_of, Path("classes/torch-legacy")
    yield check_module, Path("module/torch")
    yield check_module, Path("module/torch-legacy")
    for name in ("plain.pt", "legacy.pt", "deflated.pt", "signs-turned.pt", "signs-big-endian.pt"):
        yield check_copy, DATA / "torch/good" / name
    for name in ("numbered.pt", "named.pt", "lightning.ckpt"):
        yield check_to_dcp, DATA / "training" / name
    yield check_weights, DATA / "llama-small/hf"
    yield check_dcp, DATA / "dcp/fsdp2-tp2"
    yield check_dcp, DATA / "llama-rope/dcp-fsdp2"
    if FIXTURES.is_dir():
        for file in sorted((FIXTURES / "torch-save/pt-good/ckpt").glob("*.pt")):
            if file.name != "objects-unsafe.pt":  # contains classes that do not exist here
                yield check_copy, file
        for name in ("llama-a-fsdp2-tp2", "moe-nested-fsdp2-tp2", "llama-a-plain1"):
            yield check_dcp, FIXTURES / "dcp" / name / "ckpt"


def main(tpx):
    failed = 0
    for check, source in cases():
        with tempfile.TemporaryDirectory() as folder:
            fault = check(tpx, source, folder)
        failed += bool(fault)
        print(f"{'FAIL' if fault else 'ok'}: {source.parent.name}/{source.name}{': ' + fault if fault else ''}")
    if not difference({"a": torch.ones(2)}, {"a": torch.zeros(2)}):
        failed += 1
        print("FAIL: other values are not seen")
    return 1 if failed else 0
