// SPDX-License-Identifier: Apache-2.0
#include "formats/format_map.hpp"

#include <fmt/format.h>

#include <array>

namespace tpx::formats {
namespace {

using enum FormatEntry::Written;

constexpr std::array<FormatEntry, 12> entries{{
    {Format::safetensors,
     "safetensors, as Hugging Face and DCP keep them: one file, several with an index, a file a rank; "
     "`pytorch_model*.bin` is read",
     from_any, false, false, true},
    {Format::dcp, "PyTorch distributed checkpoint: FSDP2, tensor parallel, both, uneven; optimizers by name or number",
     from_any, true, true, true},
    {Format::torch_dist, "Megatron-core `torch_dist`: any kind of optimizer, also in buckets", from_any, true, true,
     true},
    {Format::megatron, "Megatron's rank files `mp_rank_*`: plain and distributed optimizer", from_any, true, true,
     true},
    {Format::deepspeed, "DeepSpeed: ZeRO 1 to 3, BF16 optimizer, pipelines, tensor parallel, experts, from any to any",
     from_deepspeed, true, true, true},
    {Format::universal, "DeepSpeed universal, for ZeRO 1 to 3; of others with their optimizer", from_any, true, true,
     false},
    {Format::torch, "a file of `torch.save`, a zip archive", from_any, true, true, false},
    {Format::torch_legacy, "a file of `torch.save` before version 1.6, a stream", from_any, true, true, false},
    {Format::hdf5, "HDF5: modules as groups, a file a rank", from_any, true, false, true},
    {Format::keras, "Keras 3: `.weights.h5`, sharded, `.keras`", from_keras, false, false, false},
    {Format::keras_legacy, "Keras, whole models as `.h5`", from_keras, false, false, false},
    {Format::gguf, "GGUF: tensors that are not quantised", no, false, false, false},
}};

std::string_view mark(bool yes) { return yes ? "yes" : ""; }

}  // namespace

std::span<const FormatEntry> format_map() { return entries; }

std::string_view text(FormatEntry::Written written) {
    switch (written) {
        case no:
            return "";
        case from_any:
            return "yes";
        case from_deepspeed:
            return "from DeepSpeed";
        case from_keras:
            return "from Keras";
    }
    return "";
}

std::string format_map_markdown() {
    std::string out =
        "| format | `--format` | read | written | optimizer | args, schedulers, RNG | resharded |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const FormatEntry& entry : entries)
        out += fmt::format("| {} | `{}` | yes | {} | {} | {} | {} |\n", entry.title, name(entry.format),
                           text(entry.written), mark(entry.optimizer), mark(entry.state), mark(entry.resharded));
    return out;
}

}  // namespace tpx::formats
