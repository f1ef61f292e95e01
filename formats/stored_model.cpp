// SPDX-License-Identifier: Apache-2.0
#include "formats/stored_model.hpp"

#include "formats/holding.hpp"
#include "formats/model_config.hpp"
#include "formats/roles.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

void check_layout_of_megatron(const Layout& layout) {
    const auto refuse = [&](const std::string& why) {
        throw Error{Exit::usage, "layout: {}: {}", to_string(layout), why};
    };
    if (layout.zero > 1) refuse("Megatron shards optimizer state only as zero=1 does");
    if (layout.fsdp > 1) refuse("Megatron stores tensors whole over data-parallel ranks; give dp= instead of fsdp=");
    if (layout.vn > 0) refuse("Megatron has no virtual nodes");
}

/// Reads a description as a checkpoint of Megatron without tensors.
Reading reading_of(const ModelDescription& description) {
    const Family& family = *description.family;
    const Dialect* dialect = family.dialect("mcore");
    if (!dialect)
        throw Error{Exit::usage, "model '{}': family '{}' has no Megatron names", description.model.name, family.name};
    Reading reading{.family = &family, .dialect = dialect, .prefixed = !dialect->bare};
    reading.dims = Dims{family, description.source, description.config};
    reading.complete = true;
    const auto tied = family.tied.find(std::string{description.source});
    reading.tied = tied != family.tied.end() && holds(description.config, tied->second);
    reading.config = description.config;
    reading.config["use_distributed_optimizer"] = true;
    return reading;
}

/// What the ranks of two layouts hold of the tensors that Megatron stores of a model.
class StoredModel {
public:
    StoredModel(const ModelDescription& description, Format format, const Layout& from, const Layout& to)
        : description_{description},
          format_{format},
          reading_{reading_of(description)},
          from_{stored_in(from)},
          to_{stored_in(to)} {
        for (const StateRole& role : description.model.roles) roles_.push_back(role.name);
        for (std::size_t t = 0; t < from_.tensors.size(); ++t) add_tensor(t);
    }

    StoredModelChange change(const Layout& from, const Layout& to) const {
        const RankHoldings held = holdings(from_, from);
        const RankHoldings needed = holdings(to_, to);
        return {parcels_of({tensors_, held.pieces}, {tensors_, needed.pieces}, numbers_of_roles_, roles_, from.ranks(),
                           to.ranks()),
                held.note.empty() ? needed.note : held.note};
    }

private:
    Expressed stored_in(const Layout& layout) const {
        std::set<std::string> tags{"dist", "distributed",
                                   holds(reading_.config, "transformer_impl=local") ? "local" : "te"};
        if (format_ == Format::megatron) tags.insert("ranks");
        return express_model(reading_, description_.model, layout.tp, tags);
    }

    /// Adds stored tensor `t`, which differs between the layouts in its padding only, as far as both have it.
    void add_tensor(std::size_t t) {
        Part part = own_part(from_.tensors[t]);
        for (int axis = 0; axis < part.shape.size(); ++axis)
            part.shape[axis] = std::min(part.shape[axis], to_.tensors[t].shape[axis]);
        const std::string_view role = from_.reading.meanings[t].role;
        tensors_.push_back({part.name, from_.tensors[t].dtype, part.shape});
        roles_of_tensors_.emplace_back(role);
        numbers_of_roles_.push_back(static_cast<std::uint32_t>(std::ranges::find(roles_, role) - roles_.begin()));
        parts_.push_back({{std::move(part), static_cast<std::uint32_t>(t)}});
    }

    RankHoldings holdings(const Expressed& stored, const Layout& layout) const {
        Config args = make_args(stored, layout, reading_.config, description_.source != "mcore");
        args.insert(reading_.config.begin(), reading_.config.end());
        return rank_holdings({.tensors = stored.tensors, .layout = layout, .reading = &stored.reading}, parts_,
                             roles_of_tensors_, format_, args);
    }

    const ModelDescription& description_;
    Format format_;
    Reading reading_;
    Expressed from_;
    Expressed to_;
    std::vector<std::string> roles_;
    // Of each stored tensor:
    std::vector<Tensor> tensors_;
    std::vector<std::string> roles_of_tensors_;
    std::vector<std::uint32_t> numbers_of_roles_;
    std::vector<std::vector<NumberedPart>> parts_;
};

}  // namespace

StoredModelChange stored_model_change(const ModelDescription& description, Format format, const Layout& from,
                                      const Layout& to) {
    for (const Layout& layout : {from, to}) check_layout_of_megatron(layout);
    return StoredModel{description, format, from, to}.change(from, to);
}

}  // namespace tpx::formats
