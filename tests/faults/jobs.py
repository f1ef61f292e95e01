# SPDX-License-Identifier: Apache-2.0
"""The jobs of sweep.py: small runs of each command on checkpoints of each format."""
from typing import NamedTuple


class Job(NamedTuple):
    name: str
    sources: dict  # name in the scratch folder: path in testdata
    command: str
    out: str = ""  # the output of the command; empty: none
    setup: tuple = ()  # commands that run before, without faults
    ranks: int = 1
    plain: bool = False  # on a file system that can neither exchange names nor rename without replacing
    @property
    def publishes(self):
        return self.command.startswith("reshard")


def reshard(name, source, options, src="src", **others):
    return Job(name, {src: source}, f"reshard {src} out {options}", "out", **others)


OPT = "llama-opt/legacy-tp2-dp2"
JOBS = [
    reshard("dcp", "llama-rope/dcp-fsdp2", "--to fsdp=3"),
    reshard("torch_dist", "llama-small/megatron-tp2pp2", "--to tp=1"),
    reshard("zarr", "llama-small/megatron-tp2pp2", "--to tp=1 --format zarr"),
    reshard("zarr-torch_dist", "llama-small/megatron-tp2pp2", "--to tp=1 --format torch_dist",
            setup=("reshard src made --to tp=1 --format zarr", "rm src", "mv made src")),
    reshard("safetensors", "llama-rope/hf", "--to fsdp=2 --format safetensors"),
    reshard("shared-blocks", "llama-rope/hf", "--to tp=1 --format safetensors"),
    reshard("megatron", OPT, "--to tp=1,dp=2"),
    reshard("deepspeed", "deepspeed/zero2-roundrobin-dp4", "--to dp=2"),
    reshard("deepspeed-zero3", "deepspeed/zero3-subgroups-dp2", "--to dp=1,zero=3"),
    reshard("universal", "deepspeed/mpu-tp2-dp2", "--to tp=1 --format universal"),
    reshard("universal-flat", "deepspeed/zero2-roundrobin-dp4", "--to dp=2 --format deepspeed",
            setup=("reshard src made --to tp=1 --format universal", "rm src", "mv made src")),
    reshard("torch", OPT, "--to tp=1 --format torch"),
    reshard("torch-dcp", OPT, "--to fsdp=2 --format dcp",
            setup=("reshard src made --to tp=1 --format torch", "rm src", "mv made src")),
    reshard("bin", "llama-bin", "--to tp=1 --format safetensors"),
    reshard("hdf5", "llama-rope/hf", "--to fsdp=2 --format hdf5"),
    reshard("hdf5-dcp", "llama-rope/hf", "--to tp=1 --format dcp",
            setup=("reshard src made --to fsdp=2 --format hdf5", "rm src", "mv made src")),
    reshard("keras", "keras/sharded", "--to tp=1 --format keras"),
    reshard("keras-archive", "keras/tiny.keras", "--to tp=1 --format keras-legacy", src="src.keras"),
    reshard("gguf", "gguf/numbers.gguf", "--to tp=1 --format hdf5", src="src.gguf"),
    reshard("hf-megatron", "llama-small/hf", "--to tp=2 --format torch_dist"),
    reshard("megatron-hf", "llama-small/megatron-tp2pp2", "--to tp=1 --format safetensors --verify"),
    reshard("optimizer", OPT, "--to fsdp=2 --format dcp"),
    reshard("force", "llama-rope/dcp-fsdp2", "--to fsdp=3 --force",
            setup=("reshard src out --to fsdp=4",)),
    reshard("force-file", OPT, "--to tp=1 --format torch --force",
            setup=("reshard src out --to tp=1 --format torch --drop optimizer",)),
    reshard("plain", "llama-rope/dcp-fsdp2", "--to fsdp=1", plain=True),
    reshard("plain-file", "llama-rope/hf", "--to tp=1 --format torch", plain=True),
    reshard("plain-force", "llama-rope/dcp-fsdp2", "--to fsdp=1 --force", plain=True,
            setup=("reshard src out --to fsdp=2",)),
    reshard("plain-force-file", "llama-rope/hf", "--to tp=1 --format torch --force",
            setup=("reshard src out --to tp=1 --format torch --dtype f32",), plain=True),
    Job("plan", {"src": "llama-small/megatron-tp2pp2"}, "plan src --to tp=4 -o out", "out"),
    Job("plan-again", {"src": "llama-small/megatron-tp2pp2"}, "plan src --to tp=4 -o out", "out",
        setup=("plan src --to tp=1 -o out",)),
    Job("plan-model", {}, "plan --model gpt3-6.7b --from tp=4,pp=2 --to dp=8 --hosts 2x4 -o out", "out"),
    Job("plan-launch", {}, "plan --model gpt3-6.7b --from tp=4,pp=2 --to dp=8 --hosts 2x4 --launch out", "out"),
    Job("plan-report", {}, "plan --model gpt3-6.7b --from tp=4,pp=2 --to dp=8 --hosts 2x4 --report out", "out"),
    Job("plan-check", {"src": "plan/model.plan"}, "plan --check src"),
    Job("plan-run", {"src": "llama-small/megatron-tp2pp2"}, "reshard src out --plan change", "out",
        setup=("plan src --to tp=4 -o change",)),
    Job("verify-write", {"src": "llama-rope/dcp-fsdp2"}, "verify --write src", "src/tpx.digests.json"),
    Job("verify-recorded", {"src": "llama-rope/dcp-fsdp2"}, "verify src", setup=("verify --write src",)),
    Job("verify-two", {"src": "llama-rope/dcp-fsdp2", "other": "llama-rope/hf"}, "verify src other --weights-only"),
    Job("verify-unequal", {"src": "megatron/f32", "other": "llama-rope/hf"}, "verify src/dist other"),
    Job("inspect-dcp", {"src": "llama-rope/dcp-fsdp2"}, "inspect src"),
    Job("inspect-torch_dist", {"src": "llama-small/megatron-tp2pp2"}, "inspect src"),
    Job("inspect-deepspeed", {"src": "deepspeed/zero3-subgroups-dp2"}, "inspect src"),
    Job("inspect-megatron", {"src": OPT}, "inspect src"),
    Job("inspect-hf", {"src": "llama-small/hf"}, "inspect src"),
    Job("simulate", {"src": "simulate"}, "simulate src/trace.csv --cluster 1x4 --policy fifo --jobs out", "out"),
    Job("fit", {"src": "profile/rubick"},
        "profile fit src/gpt2.csv --model src/gpt2.toml --columns src/columns.toml -o out", "out"),
    reshard("ranks", "llama-small/megatron-tp2pp2", "--to tp=1", ranks=2),
    reshard("ranks-force", "llama-rope/dcp-fsdp2", "--to fsdp=3 --force", ranks=2,
            setup=("reshard src out --to fsdp=4",)),
    Job("ranks-verify", {"src": "llama-rope/dcp-fsdp2", "other": "llama-rope/hf"}, "verify src other --weights-only",
        ranks=2),
]
