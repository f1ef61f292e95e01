// SPDX-License-Identifier: Apache-2.0
#include "formats/folder_files.hpp"

#include "formats/companions.hpp"
#include "formats/driver.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* adapter_config = "adapter_config.json";

/// Where Lightning's strategies for FSDP store what is not in the DCP checkpoint beside it: loops, callbacks,
/// schedulers. Lightning does not load a folder without it.
constexpr const char* lightning_state = "meta.pt";

/// "optimizer" of "optimizer_1.bin": the part before the number of a rank or of an optimizer.
std::string_view stem_of(std::string_view name) {
    name = name.substr(0, name.rfind('.'));
    while (!name.empty() && (std::isdigit(static_cast<unsigned char>(name.back())) || name.back() == '_'))
        name.remove_suffix(1);
    return name;
}

/// Whether transformers' Trainer or accelerate writes its optimizer, scheduler, scaler, sampler or RNG state as `name`.
bool is_training_file(std::string_view name) {
    constexpr std::array<std::string_view, 4> endings{".pt", ".bin", ".pth", ".pkl"};
    constexpr std::array<std::string_view, 7> stems{"optimizer", "scheduler",     "scaler",       "sampler",
                                                    "rng_state", "random_states", "dl_state_dict"};
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); }) &&
           std::ranges::find(stems, stem_of(name)) != stems.end();
}

/// Whether `name` may be another copy of the model in a Hugging Face folder, in another format.
bool is_other_weights(std::string_view name) {
    constexpr std::array<std::string_view, 10> endings{".bin",     ".pt",   ".pth",  ".ckpt", ".h5",
                                                       ".msgpack", ".onnx", ".gguf", ".npz",  ".tflite"};
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

void note_others(const std::vector<std::string>& others, Checkpoint& checkpoint) {
    constexpr std::size_t shown = 5;
    if (others.empty()) return;
    const std::span<const std::string> some{others.data(), std::min(others.size(), shown)};
    checkpoint.notes.push_back(
        fmt::format("{}{}{}", not_carried_over, fmt::join(some, ", "),
                    others.size() > shown ? fmt::format(" and {} more", others.size() - shown) : ""));
}

/// Whether both formats store the values beside the tensors in the same kind of files, so that frameworks expect the
/// same files beside them.
bool are_alike(Format a, Format b) { return a->values == b->values; }

}  // namespace

void find_folder_files(const fs::path& directory, Checkpoint& checkpoint) {
    const auto& files = checkpoint.catalogue.files;
    const auto is_own = [&](const std::string& name) {
        return std::ranges::find(files, fs::path{name}, &FileEntry::path) != files.end();
    };
    const std::vector<std::string> names = list_directory(directory.empty() ? "." : directory);
    const bool adapter = std::ranges::find(names, adapter_config) != names.end();
    std::vector<std::string> others;
    for (const std::string& name : names) {
        if (is_own(name) || name.starts_with('.') || !path_is_file(directory / name)) continue;
        const bool of_adapter = adapter && (name == "adapter_model.safetensors" || name == "adapter_model.bin");
        const bool inside = stays_inside(directory / name, directory);
        if (is_training_file(name) && inside)
            checkpoint.training_files.emplace_back(name);
        else if (of_adapter && inside)
            checkpoint.adapter_files.emplace_back(name);
        else if ((is_other_weights(name) && name != trainer_arguments) || is_training_file(name) || of_adapter)
            others.push_back(name);
    }
    note_others(others, checkpoint);
    std::erase_if(checkpoint.companions, [&](const fs::path& name) {
        return std::ranges::find(checkpoint.training_files, name) != checkpoint.training_files.end();
    });
}

void find_training_files(const fs::path& directory, Checkpoint& checkpoint) {
    for (const std::string& name : list_directory(directory.empty() ? "." : directory))
        if ((is_training_file(name) || name == lightning_state) && path_is_file(directory / name) &&
            stays_inside(directory / name, directory))
            checkpoint.training_files.emplace_back(name);
    std::erase_if(checkpoint.companions, [&](const fs::path& name) {
        return std::ranges::find(checkpoint.training_files, name) != checkpoint.training_files.end();
    });
}

void carry_folder_files(Checkpoint& checkpoint, Format target) {
    auto& companions = checkpoint.companions;
    const auto& training = checkpoint.training_files;
    const auto& adapter = checkpoint.adapter_files;
    const Format source = checkpoint.format;
    if (are_alike(source, target)) {
        companions.insert(companions.end(), training.begin(), training.end());
        companions.insert(companions.end(), adapter.begin(), adapter.end());
        return;
    }
    if (!source->is_hugging_face) {
        std::vector<std::string> left;
        for (const fs::path& file : training) left.push_back(file.string());
        return note_others(left, checkpoint);
    }
    const auto named = [](const std::vector<fs::path>& files) {
        std::vector<std::string> names;
        for (const fs::path& file : files) names.push_back(file.string());
        return fmt::format("{}", fmt::join(names, ", "));
    };
    if (!training.empty())
        throw Error{Exit::usage,
                    "{}: optimizer, scheduler and RNG state that can only be copied to another Hugging Face folder; "
                    "pass --drop optimizer to omit it",
                    named(training)};
    if (!adapter.empty())
        throw Error{Exit::usage,
                    "{}: a LoRA adapter cannot be converted to {}; add --merge-adapter DIR to merge it into the "
                    "model, or give a folder without {}",
                    named(adapter), name(target), adapter_config};
}

}  // namespace tpx::formats
