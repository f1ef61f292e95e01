// SPDX-License-Identifier: Apache-2.0
#include "formats/selection.hpp"

#include "formats/roles.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <unordered_map>

namespace tpx::formats {
namespace {

/// A tensor that is kept: which stored one it is, and by what name.
struct Kept {
    std::uint32_t stored = 0;
    std::string name;
};

std::string_view role(const Source& source, std::uint32_t t) {
    const auto& roles = source.checkpoint.roles;
    return roles.empty() ? source.reading.meanings[t].role : roles[t];
}

class Selection {
public:
    Selection(const Source& source, bool masters) : source_{source} {
        const auto& tensors = source.checkpoint.catalogue.tensors;
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            if (role(source, t) == "weight") weights_.emplace(tensors[t].name, t);
            if (role(source, t) == "master") masters_.emplace(parameter_of(tensors[t].name), t);
        }
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            const std::string name{role(source, t) == "master" ? parameter_of(tensors[t].name) : tensors[t].name};
            if (role(source, t) == "weight")
                kept_.push_back({masters ? master_of(name).value_or(t) : t, name});
            else if (role(source, t) == "master" && !weights_.contains(name))
                kept_.push_back({t, name});
        }
        for (const auto& [name, stored] : source.checkpoint.shared) {
            const auto master = masters_.find(stored);
            if (!weights_.contains(name) && master != masters_.end()) kept_.push_back({master->second, name});
        }
    }

    /// The pieces of the kept tensors become those of the new ones, which may be more: shared ones stand twice.
    void apply(Source& source) const {
        Catalogue& catalogue = source.checkpoint.catalogue;
        std::vector<std::pair<std::size_t, std::size_t>> runs(catalogue.tensors.size());
        for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
            auto& [begin, end] = runs[catalogue.pieces[p].tensor];
            if (end == 0) begin = p;
            end = p + 1;
        }
        std::vector<Tensor> tensors;
        std::vector<Piece> pieces;
        Reading reading = source.reading;
        reading.meanings.clear();
        reading.unknown.clear();
        for (const auto& [stored, name] : kept_) {
            const auto number = static_cast<std::uint32_t>(tensors.size());
            tensors.push_back(catalogue.tensors[stored]);
            tensors.back().name = name;
            reading.meanings.push_back(source.reading.meanings[stored]);
            reading.meanings.back().role = "weight";
            if (reading.meanings.back().kind == Meaning::Kind::unknown) reading.unknown.push_back(number);
            for (std::size_t p = runs[stored].first; p < runs[stored].second; ++p) {
                pieces.push_back(catalogue.pieces[p]);
                pieces.back().tensor = number;
            }
        }
        catalogue.tensors = std::move(tensors);
        catalogue.pieces = std::move(pieces);
        if (!source.checkpoint.roles.empty()) source.checkpoint.roles.assign(kept_.size(), "weight");
        source.reading = std::move(reading);
    }

private:
    std::optional<std::uint32_t> master_of(const std::string& name) const {
        const auto alias = source_.checkpoint.shared.find(name);
        const auto found = masters_.find(alias == source_.checkpoint.shared.end() ? name : alias->second);
        return found == masters_.end() ? std::nullopt : std::optional{found->second};
    }

    const Source& source_;
    std::unordered_map<std::string, std::uint32_t> weights_;
    std::unordered_map<std::string, std::uint32_t> masters_;  // by parameter
    std::vector<Kept> kept_;
};

}  // namespace

void keep_weights(Source& source, bool masters) {
    if (source.checkpoint.roles.empty())
        throw Error{Exit::usage, "--drop optimizer: {} checkpoints do not tell which tensors are optimizer state",
                    name(source.checkpoint.format)};
    Selection{source, masters}.apply(source);
}

}  // namespace tpx::formats
