// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_where.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "formats/convert/canonical.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

/// The tensor whose stored or canonical name is `wanted`, and its pieces. Throws Error if there is none.
std::pair<std::vector<Piece>, Tensor> find_tensor(formats::Source& source, const std::string& wanted) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    const formats::CanonicalTensors parts = formats::canonical(source);
    const auto pick = [&](std::span<const Tensor> tensors,
                          std::span<const Piece> pieces) -> std::optional<std::pair<std::vector<Piece>, Tensor>> {
        const auto found = std::ranges::find(tensors, wanted, &Tensor::name);
        if (found == tensors.end()) return std::nullopt;
        std::vector<Piece> own;
        std::ranges::copy_if(pieces, std::back_inserter(own), [&](const Piece& p) {
            return p.tensor == static_cast<std::uint32_t>(found - tensors.begin());
        });
        return std::pair{own, *found};
    };
    if (auto stored = pick(catalogue.tensors, catalogue.pieces)) return *stored;
    if (auto part = pick(parts.tensors, parts.pieces)) return *part;
    std::vector<std::string> names;
    for (const Tensor& tensor : catalogue.tensors) names.push_back(tensor.name);
    for (const Tensor& tensor : parts.tensors) names.push_back(tensor.name);
    throw failure("{}: no tensor '{}'{}", catalogue.directory.string(), wanted, did_you_mean(wanted, names));
}

}  // namespace

void print_where(formats::Source& source, const std::string& wanted, Output& out) {
    const auto [pieces, tensor] = find_tensor(source, wanted);
    const Catalogue& catalogue = source.checkpoint.catalogue;
    nlohmann::ordered_json json{{"tensor", tensor.name},
                                {"dtype", name(tensor.dtype)},
                                {"shape", to_json(tensor.shape)},
                                {"pieces", nlohmann::ordered_json::array()}};
    if (!out.json()) out.result("{} {} {}\n", printable(tensor.name), name(tensor.dtype), to_string(tensor.shape));
    for (const Piece& piece : pieces) {
        const std::string file = catalogue.files[piece.file].path.string();
        nlohmann::ordered_json strides = nlohmann::ordered_json::array();
        for (Index stride : piece.strides) strides.push_back(stride);
        json["pieces"].push_back({{"box", to_json(piece.box)},
                                  {"file", file},
                                  {"offset", piece.offset},
                                  {"strides", strides},
                                  {"rank", piece.rank}});
        if (!out.json())
            out.result("{:<28} {} at {}{}\n", to_string(piece.box), printable(file), piece.offset,
                       piece.rank >= 0 ? fmt::format(", rank {}", piece.rank) : "");
    }
    if (out.json()) out.object("tpx.where/1", json);
}

}  // namespace tpx::cli
