// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/copied_archives.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/hybrid_pattern.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_model.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/megatron/tracker.hpp"
#include "formats/state/common_state.hpp"
#include "formats/state/rank_settings.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using namespace megatron;

/// The file in a rank's directory that contains the state of a distributed optimizer.
constexpr const char* vectors_name = "distrib_optim.pt";

/// The file in `directory` that contains the weights.
fs::path model_file(const fs::path& directory) {
    for (const char* name : {"model_optim_rng.pt", "model_rng.pt"}) {
        if (path_exists(directory / name)) return directory / name;
    }
    throw failure("{}: No such file or directory", (directory / "model_optim_rng.pt").string());
}

torch::Archive open_archive(const fs::path& path) {
    torch::Archive archive = torch::Archive::open(path);
    if (archive.big_endian())
        throw failure("{}: its elements are big-endian, which cannot be moved as they are", path.string());
    return archive;
}

/// Whether an entry of args belongs to one rank or machine rather than to the run.
bool is_of_rank(std::string_view key) {
    static constexpr std::array<std::string_view, 11> signs{"rank", "time", "date", "host",   "addr",       "port",
                                                            "dir",  "path", "log",  "device", "tensorboard"};
    return std::ranges::any_of(signs, [&](std::string_view sign) { return key.find(sign) != key.npos; });
}

/// The args of a rank's file; null if there are none.
torch::Value args_in(torch::Value state) {
    const auto args = state.find("args");
    if (!args) return {};
    const torch::Value attributes = args->is(torch::Kind::object) ? args->as_object().state : *args;
    return attributes.is(torch::Kind::dict) ? attributes : torch::Value{};
}

/// The rank that wrote the file, according to its args.
std::optional<std::int64_t> writer_of(torch::Value state) {
    const torch::Value args = args_in(state);
    const auto rank = args.is(torch::Kind::dict) ? args.find("rank") : std::nullopt;
    return rank && rank->is(torch::Kind::integer) ? std::optional{rank->as_int()} : std::nullopt;
}

/// Whether the file contains the settings of a distributed optimizer, whose state is in another file.
bool has_distributed_settings(torch::Value state) {
    const torch::Value args = args_in(state);
    const auto used = args.is(torch::Kind::dict) ? args.find("use_distributed_optimizer") : std::nullopt;
    const auto optimizer = state.find("optimizer");
    return used && used->is(torch::Kind::boolean) && used->as_bool() && optimizer && !optimizer->is_none();
}

/// Adds to `settings` what the model files of all ranks must agree on.
void compare_settings(RankSettings& settings, const fs::path& file, torch::Value state) {
    for (const char* key : {"iteration", "checkpoint_version", "opt_param_scheduler"})
        settings.add(file, key, state.find(key));
    if (const torch::Value args = args_in(state); args.is(torch::Kind::dict)) {
        settings.add_keys(file, "args", args, is_of_rank);
        for (const auto& [key, value] : args.entries())
            if (key.is(torch::Kind::string) && !is_of_rank(key.as_string()))
                settings.add(file, fmt::format("args.{}", key.as_string()), value);
    }
    const auto optimizer = state.find("optimizer");
    if (!optimizer) return;
    const bool several = optimizer->is(torch::Kind::list);
    const std::vector<torch::Value> all =
        several ? std::vector(optimizer->items().begin(), optimizer->items().end()) : std::vector{*optimizer};
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (!all[k].is(torch::Kind::dict)) continue;
        const std::string name = several ? fmt::format("optimizer[{}]", k) : "optimizer";
        const torch::Value inner = all[k].find("optimizer").value_or(all[k]);
        settings.add(file, name + ".grad_scaler", all[k].find("grad_scaler"));
        if (!inner.is(torch::Kind::dict)) continue;
        if (const auto groups = inner.find("param_groups")) settings.add_groups(file, name + ".param_groups", *groups);
    }
}

class Opener {
public:
    explicit Opener(const fs::path& directory) : files_{std::make_shared<RankFiles>()} {
        checkpoint_.format = &megatron_driver;
        checkpoint_.catalogue.directory = directory;
    }

    Checkpoint open() {
        const fs::path& root = checkpoint_.catalogue.directory;
        const std::vector<fs::path> found = find_rank_directories(root);
        if (found.empty()) throw failure("{}: no directory mp_rank_*", root.string());
        read_common(open_archive(model_file(root / found[0])));
        in_context([&] { return root.string(); }, [&] { place(found); });
        for (RankDirectory& directory : files_->directories) read(directory);
        check_writers();
        if (!copied_vectors_.empty()) refuse_copy(copied_vectors_.begin()->first, copied_vectors_.begin()->second);
        check_distributed_optimizers();
        checkpoint_.layout = files_->layout;
        checkpoint_.rank_files = std::move(files_);
        read_companions(checkpoint_, {tracker_name});
        return std::move(checkpoint_);
    }

private:
    void read_common(const torch::Archive& archive) {
        const auto& root = checkpoint_.catalogue.directory;
        in_context([&] { return model_file(root / find_rank_directories(root)[0]).string(); },
                   [&] {
                       if (!archive.root().is(torch::Kind::dict))
                           throw failure("contains {}, not a dict", archive.root().describe());
                       checkpoint_.config = args_of(archive.root());
                       add_layer_kinds(checkpoint_.config);
                       checkpoint_.iteration = iteration_in(archive.root());
                       if (!checkpoint_.iteration) checkpoint_.iteration = iteration_of(root);
                       checkpoint_.common = common_of_ranks(archive, checkpoint_.common_storages);
                   });
    }

    /// Throws Error unless the directories of the layout are exactly those that were found.
    void place(const std::vector<fs::path>& found) {
        files_->layout = layout_of(checkpoint_.config, found);
        files_->spelling = Spelling::of(checkpoint_.config);
        files_->directories = rank_directories(files_->layout);
        const std::set<fs::path> present(found.begin(), found.end());
        NameList absent;
        for (const RankDirectory& directory : files_->directories)
            if (!present.contains(directory.path)) absent.add(directory.path.string());
        if (absent.count() > 0)
            throw failure("{} (layout {})", absent.are_missing("folder"), to_string(files_->layout));
        if (found.size() != files_->directories.size())
            throw failure("found {} directories mp_rank_*, but layout {} has {}", found.size(),
                          to_string(files_->layout), files_->directories.size());
    }

    /// Throws Error if rank files were swapped or copied: the ranks that wrote them, according to the files, are at
    /// least two ranks of the folders, but not each that of its own folder. Converters often record the same rank in
    /// all files; of these, only copies are found.
    void check_writers() const {
        const auto& directories = files_->directories;
        std::map<std::optional<std::int64_t>, fs::path> folder_of;
        for (const RankDirectory& directory : directories) folder_of.emplace(directory.rank, directory.path);
        const std::set<std::optional<std::int64_t>> writers(writers_.begin(), writers_.end());
        if (writers.size() < 2 && !copies_.empty()) refuse_copy(copies_.begin()->first, copies_.begin()->second);
        if (writers.size() < 2) return;
        if (!std::ranges::all_of(writers, [&](const auto& rank) { return folder_of.contains(rank); })) return;
        for (std::size_t k = 0; k < directories.size(); ++k) {
            const fs::path path = model_file(checkpoint_.catalogue.directory / directories[k].path);
            if (writers_[k] != directories[k].rank)
                throw failure("{}: was written by rank {}, whose folder is {}; rank files were swapped or copied",
                              path.string(), *writers_[k], folder_of.at(writers_[k]).string());
        }
    }

    [[noreturn]] static void refuse_copy(const fs::path& copy, const fs::path& original) {
        throw failure("{}: is a copy of {}, although ranks store different parts of the model", copy.string(),
                      original.string());
    }

    /// Throws Error if some directories contain the distributed optimizer's state and others lack it (those with ep > 0
    /// contain none if the stage has no experts); warns if none contains it, but model files refer to it.
    void check_distributed_optimizers() {
        NameList absent;
        for (const RankDirectory& directory : files_->directories)
            if (directory.ep == 0 && !directory.has_distributed_optimizer)
                absent.add((checkpoint_.catalogue.directory / directory.path / vectors_name).string());
        if (absent.count() == 0) return;
        if (files_->distributed_optimizer)
            throw failure("{}, although other folders contain {}", absent.are_missing("file"), vectors_name);
        if (refers_to_vectors_)
            checkpoint_.warnings.push_back(
                fmt::format("{}; the checkpoint has the settings of the distributed optimizer, but not its moments and "
                            "master weights",
                            absent.are_missing("file")));
    }

    std::uint32_t add_file(const fs::path& path) {
        Catalogue& catalogue = checkpoint_.catalogue;
        catalogue.files.push_back({path.lexically_relative(catalogue.directory), size_of_file(path)});
        return static_cast<std::uint32_t>(catalogue.files.size() - 1);
    }

    /// Throws Error if data-parallel ranks divide the parameters: the model file has the state of one of them.
    static void refuse_layer_wise(const fs::path& directory) {
        const auto files = std::ranges::count_if(list_directory(directory), [](const std::string& name) {
            return name.starts_with("layer_wise_optimizer_");
        });
        if (files > 1)
            throw failure(
                "{}: the layer-wise optimizer's state is divided among {} files, which tpx cannot read; save the "
                "checkpoint with --ckpt-format torch_dist",
                directory.string(), files);
    }

    void read(RankDirectory& directory) {
        const fs::path path = model_file(checkpoint_.catalogue.directory / directory.path);
        refuse_layer_wise(path.parent_path());
        const torch::Archive archive = open_archive(path);
        if (!archive.root().is(torch::Kind::dict))
            throw failure("{}: contains {}, not a dict", path.string(), archive.root().describe());
        writers_.push_back(writer_of(archive.root()));
        const std::pair place{directory.tp, directory.pp};
        place_of_.emplace(path, place);
        // A stage without experts is the same on all ranks of ep.
        if (const auto original = archives_.add(path, archive); original && place_of_.at(*original) != place)
            copies_.emplace(path, *original);
        const std::uint32_t file = add_file(path);
        compare_settings(settings_, path, archive.root());
        in_context([&] { return path.string(); },
                   [&] {
                       read_model(directory, archive, file, checkpoint_.config);
                       files_->spelling.local_norms |= directory.old_names;
                       const std::size_t weights = directory.tensors.size();
                       add_plain_optimizer(directory, archive, file, checkpoint_.config, files_->layout);
                       files_->plain_optimizer |= directory.tensors.size() > weights;
                   });
        checkpoint_.rank_values.push_back({directory.path / path.filename(), directory.pp, directory.tp, directory.ep,
                                           !directory.extra_states.empty()});
        const fs::path distributed = path.parent_path() / vectors_name;
        refers_to_vectors_ |= has_distributed_settings(archive.root());
        if (!path_exists(distributed)) return;
        const torch::Archive vectors = open_archive(distributed);
        if (const auto original = vectors_.add(distributed, vectors)) copied_vectors_.emplace(distributed, *original);
        const std::uint32_t number = add_file(distributed);
        in_context([&] { return distributed.string(); },
                   [&] { add_distributed_optimizer(directory, vectors, number, checkpoint_.config, files_->layout); });
        files_->distributed_optimizer = directory.has_distributed_optimizer = true;
    }

    Checkpoint checkpoint_;
    std::shared_ptr<RankFiles> files_;
    RankSettings settings_;
    std::vector<std::optional<std::int64_t>> writers_;  // of the files, by directory
    torch::CopiedArchives archives_{2};                 // the model files, whose matrices differ
    torch::CopiedArchives vectors_{1};                  // the files of distributed optimizers
    std::map<fs::path, fs::path> copies_;               // from copies to originals
    std::map<fs::path, std::pair<int, int>> place_of_;  // tp and pp of the model files
    std::map<fs::path, fs::path> copied_vectors_;
    bool refers_to_vectors_ = false;  // whether model files have the settings of vectors_name
};

}  // namespace

Checkpoint open_rank_files(const fs::path& directory_or_root) {
    const bool root = path_exists(directory_or_root / tracker_name) && find_rank_directories(directory_or_root).empty();
    return Opener{root ? tracked_directory(directory_or_root) : directory_or_root}.open();
}

}  // namespace tpx::formats
