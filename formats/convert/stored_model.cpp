// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/stored_model.hpp"

#include "formats/convert/rank_holdings.hpp"
#include "formats/convert/rename_optimizer_state.hpp"
#include "formats/driver.hpp"
#include "formats/settings/model_config.hpp"
#include "formats/state/roles.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// The names of `format` for the model's tensors, including optimizer state.
Dialect dialect_of(const ModelDescription& description, Format format) {
    const Dialect* dialect = description.family->dialect(format->model_dialect);
    if (!dialect)
        throw Error{Exit::usage, "model '{}': family '{}' has no {} names", description.model.name,
                    description.family->name, format->has_args ? "Megatron" : "Hugging Face"};
    return with_state_names(format->state_names, *dialect);
}

/// The reading of a checkpoint of the described model, in `dialect`, that has no tensors yet.
Reading reading_of(const ModelDescription& description, const Dialect& dialect) {
    const Family& family = *description.family;
    Reading reading{.family = &family, .dialect = &dialect, .prefixed = !dialect.bare};
    reading.dims = Dims{family, description.source, description.config};
    reading.complete = true;
    const auto tied = family.tied.find(std::string{description.source});
    reading.tied = tied != family.tied.end() && holds(description.config, tied->second);
    reading.config = description.config;
    reading.config["use_distributed_optimizer"] = true;
    reading.lists = ListItems{reading.config};
    return reading;
}

/// Sorts the tensors in module order: those before the layers, each layer, those after them.
void order_by_module(ExpressedState& stored) {
    const auto place = [&](std::size_t t) {
        const Meaning& meaning = stored.reading.meanings[t];
        const bool behind = stored.reading.family->tensor(meaning.rule->expression.parts[0]).last;
        return meaning.indices.layer.value_or(behind ? std::numeric_limits<int>::max() : -1);
    };
    std::vector<std::size_t> order(stored.tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, place);
    std::vector<Tensor> tensors;
    std::vector<Meaning> meanings;
    for (const std::size_t t : order) {
        tensors.push_back(stored.tensors[t]);
        meanings.push_back(stored.reading.meanings[t]);
    }
    stored.tensors = std::move(tensors);
    stored.reading.meanings = std::move(meanings);
}

/// What the ranks of two layouts hold of a model's tensors as a framework stores them.
class StoredModel {
public:
    StoredModel(const ModelDescription& description, Format format, const Layout& from, const Layout& to)
        : description_{description},
          format_{format},
          dialect_{dialect_of(description, format)},
          reading_{reading_of(description, dialect_)},
          from_{stored_in(from)},
          to_{stored_in(to)} {
        for (const StateRole& role : description.model.roles) roles_.push_back(role.role);
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
    ExpressedState stored_in(const Layout& layout) const {
        if (!format_->has_args) {
            ExpressedState stored = express_model(reading_, description_.model, 1, {});
            order_by_module(stored);
            return stored;
        }
        std::set<std::string> tags{"dist", "distributed",
                                   holds(reading_.config, "transformer_impl=local") ? "local" : "te"};
        if (format_->has_rank_names) tags.insert("ranks");
        return express_model(reading_, description_.model, layout.tp, tags);
    }

    /// Adds the part of stored tensor `t` that both layouts have; they differ only in padding.
    void add_tensor(std::size_t t) {
        Part part = own_part(from_.tensors[t]);
        for (int axis = 0; axis < part.shape.size(); ++axis)
            part.shape[axis] = std::min(part.shape[axis], to_.tensors[t].shape[axis]);
        const Role role = from_.reading.meanings[t].role;
        tensors_.push_back({part.name, from_.tensors[t].dtype, part.shape});
        roles_of_tensors_.push_back(role);
        numbers_of_roles_.push_back(static_cast<std::uint32_t>(std::ranges::find(roles_, role) - roles_.begin()));
        parts_.push_back({{std::move(part), static_cast<std::uint32_t>(t)}});
    }

    RankHoldings holdings(const ExpressedState& stored, const Layout& layout) const {
        Config args;
        if (format_->has_args) args = make_args(stored, layout, reading_.config, description_.source != "mcore");
        args.insert(reading_.config.begin(), reading_.config.end());
        return rank_holdings({.tensors = stored.tensors, .layout = layout, .reading = &stored.reading}, parts_,
                             roles_of_tensors_, format_, args);
    }

    const ModelDescription& description_;
    Format format_;
    Dialect dialect_;
    Reading reading_;
    ExpressedState from_;
    ExpressedState to_;
    std::vector<Role> roles_;
    // One for each stored tensor:
    std::vector<Tensor> tensors_;
    std::vector<Role> roles_of_tensors_;
    std::vector<std::uint32_t> numbers_of_roles_;
    std::vector<std::vector<NumberedPart>> parts_;
};

}  // namespace

StoredModelChange stored_model_change(const ModelDescription& description, Format format, const Layout& from,
                                      const Layout& to) {
    for (const Layout& layout : {from, to}) format->check_model_layout(layout);
    return StoredModel{description, format, from, to}.change(from, to);
}

}  // namespace tpx::formats
