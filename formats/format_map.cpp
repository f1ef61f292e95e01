// SPDX-License-Identifier: Apache-2.0
#include "formats/format_map.hpp"

#include <fmt/format.h>

#include <array>

namespace tpx::formats {
namespace {

using enum FormatEntry::Written;

constexpr std::array<FormatEntry, 12> format_entries{{
    {Format::safetensors,
     "Hugging Face safetensors, one file or several with an index; DCP's per-rank safetensors; `pytorch_model*.bin` "
     "(read only)",
     from_any, false, false, true},
    {Format::dcp,
     "PyTorch distributed checkpoint (DCP): FSDP2, tensor parallel or both; optimizer state keyed by parameter name or "
     "index",
     from_any, true, true, true},
    {Format::torch_dist,
     "Megatron-core `torch_dist`, every optimizer sharding type; the former `zarr` backend (read only)", from_any, true,
     true, true},
    {Format::megatron, "Megatron rank files `mp_rank_*`, with plain or distributed optimizer", from_any, true, true,
     true},
    {Format::deepspeed, "DeepSpeed ZeRO 1 to 3, BF16 optimizer, pipelines, tensor parallel, experts", from_deepspeed,
     true, true, true},
    {Format::universal, "DeepSpeed universal checkpoint (ZeRO 1 to 3)", from_any, true, true, false},
    {Format::torch, "a `torch.save` file (zip archive)", from_any, true, true, false},
    {Format::torch_legacy, "a `torch.save` file of PyTorch before 1.6 (stream)", from_any, true, true, false},
    {Format::hdf5, "HDF5: modules are groups, one file per rank", from_any, true, false, true},
    {Format::keras, "Keras 3: `.weights.h5`, sharded, `.keras`", from_keras, false, false, false},
    {Format::keras_legacy, "Keras whole-model `.h5`", from_keras, false, false, false},
    {Format::gguf, "GGUF, also quantized", no, false, false, false},
}};

std::string_view mark(bool yes) { return yes ? "yes" : ""; }

}  // namespace

std::span<const FormatEntry> format_map() { return format_entries; }

std::string_view text(FormatEntry::Written written) {
    switch (written) {
        case no:
            return "";
        case from_any:
            return "yes";
        case from_deepspeed:
            return "only if the source is DeepSpeed";
        case from_keras:
            return "only if the source is Keras";
    }
    return "";
}

std::string format_map_markdown() {
    std::string out =
        "| format | `--format` | read | written | optimizer state | args, schedulers, RNG states | resharded |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const FormatEntry& entry : format_entries)
        out += fmt::format("| {} | `{}` | yes | {} | {} | {} | {} |\n", entry.title, name(entry.format),
                           text(entry.written), mark(entry.optimizer), mark(entry.state), mark(entry.resharded));
    return out;
}

}  // namespace tpx::formats
