// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/new_objects.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/adam_state.hpp"
#include "formats/megatron/archive_draft.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/megatron/tracker.hpp"
#include "formats/state/common_state.hpp"
#include "formats/state/rng_states.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include "formats/encodings/torch/without_keys.hpp"

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using namespace megatron;
using torch::Document;
using torch::Entry;
using torch::Value;

/// The name of the FP8 extra state of the linear layer with parameter `name`; unset for other parameters. Linear layers
/// have such an entry in the state dict; tpx writes None.
std::optional<std::string> extra_state_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    const std::string module = name.substr(0, dot == name.npos ? 0 : dot);
    const std::string last = module.substr(module.rfind('.') == module.npos ? 0 : module.rfind('.') + 1);
    const bool linear = is_linear_module(last) || last == "output_layer";
    const bool one_tensor = name.ends_with(".weight") || name.ends_with(".bias");
    return linear && one_tensor ? std::optional{module + "._extra_state"} : std::nullopt;
}

class Drafter {
public:
    explicit Drafter(const Content& content) : content_{content} {
        const std::int64_t step = content.adam ? content.adam->step : 0;
        const std::int64_t known = content.source != nullptr ? content.source->iteration.value_or(step) : 0;
        iteration_ = std::max<std::int64_t>(known, 1);
        make_common();
        places_ = rng_places(content.layout);
        if (content.source != nullptr) rng_ = RngStates{*content.source};
        draft_.tensors = content.tensors;
    }

    Draft draft() {
        RankParts parts{content_, args_};
        const fs::path folder = fmt::format("iter_{:07}", iteration_);
        for (const RankDirectory& directory : rank_directories(content_.layout)) {
            const std::vector<RankParameter> parameters = parts.of(directory);
            write_model(directory, parameters, parts, folder / directory.path / "model_optim_rng.pt");
            if (!has_state(parameters) || !holds(args_, "use_distributed_optimizer")) continue;
            ArchiveDraft file;
            const Value root = distributed_value(file, directory, parameters, args_, content_.layout);
            file.finish(root, folder / directory.path / "distrib_optim.pt", directory.rank, draft_);
        }
        add_file(draft_, tracker_name, std::to_string(iteration_));
        return std::move(draft_);
    }

private:
    void make_common() {
        Value common = document_.dict();
        if (content_.source != nullptr && content_.source->common)
            common = *content_.source->common;
        else
            common = document_.with_key(document_.with_key(common, "args", Value{}), "checkpoint_version",
                                        document_.real(3.0));
        common = with_adam(document_, common, content_, false);
        source_common_ = common;
        Config settings = content_.args;
        const Config known = args_of(common);
        if (known.contains("ckpt_format")) settings["ckpt_format"] = std::string{"torch"};
        if (known.contains("use_dist_ckpt")) settings["use_dist_ckpt"] = false;
        const bool same = content_.source != nullptr && content_.source->rank_files &&
                          same_ranks(content_.source->rank_files->layout, content_.layout);
        common = torch::without_keys(document_, common, {"optimizer", "content_metadata", "model"});
        if (!same) common = torch::without_keys(document_, common, {"rerun_state_machine"});
        common_ = with_args(document_, common, settings, iteration_);
        args_ = args_of(common_);
    }

    Value chunk_value(ArchiveDraft& file, const std::vector<RankParameter>& parameters, int chunk, bool last) const {
        Document& document = file.document();
        std::vector<Entry> entries;
        std::set<std::string> extra;
        const auto add_extra = [&](const std::string& name) {
            if (extra.insert(name).second) entries.push_back({document.string(name), Value{}});
        };
        for (std::size_t k = 0; k < parameters.size(); ++k) {
            const RankParameter& parameter = parameters[k];
            const auto weight = parameter.parts.find(Role::weight);
            if (parameter.chunk != chunk || weight == parameter.parts.end()) continue;
            entries.push_back({document.string(parameter.name),
                               file.tensor(parameter.dtypes.at(Role::weight), parameter.shape, weight->second)});
            const auto own = extra_state_of(parameter.name);
            const bool bias_follows = k + 1 < parameters.size() && own && extra_state_of(parameters[k + 1].name) == own;
            if (own && !bias_follows) add_extra(*own);
        }
        if (last) add_extra("output_layer._extra_state");
        const Value dict = document.object(document.global("collections", "OrderedDict"), document.tuple({}));
        document.insert(dict, entries);
        return dict;
    }

    void write_model(const RankDirectory& directory, const std::vector<RankParameter>& parameters, const RankParts& all,
                     const fs::path& path) {
        ArchiveDraft file{content_.source != nullptr ? content_.source->common_storages : torch::Contents{}};
        Document& document = file.document();
        const Layout& layout = content_.layout;
        Value root = with_args(document, common_, {{"rank", std::int64_t{directory.rank}}}, iteration_);
        for (int chunk = 0; chunk < layout.vpp; ++chunk) {
            const bool last = directory.pp == layout.pp - 1 && chunk == layout.vpp - 1;
            root = document.with_key(root, layout.vpp > 1 ? fmt::format("model{}", chunk) : "model",
                                     chunk_value(file, parameters, chunk, last));
        }
        if (has_state(parameters))
            root = document.with_key(root, "optimizer",
                                     optimizer_value(file, parameters, all, source_common_, args_, layout));
        if (!rng_.empty())
            root = document.with_key(root, "rng_state",
                                     rng_.state(document, file.contents(), places_[directory.rank], layout));
        file.finish(root, path, directory.rank, draft_);
    }

    const Content& content_;
    RngStates rng_;
    std::vector<RngPlace> places_;  // by rank
    std::int64_t iteration_ = 1;
    Document document_;
    Value source_common_;
    Value common_;
    Config args_;
    Draft draft_;
};

}  // namespace

Draft draft_rank_files(const Content& content) { return Drafter{content}.draft(); }

}  // namespace tpx::formats
