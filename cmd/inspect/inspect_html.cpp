// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_html.hpp"

#include "cmd/output/html_page.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 1000;
constexpr std::size_t most_columns = 256;

std::uint64_t bytes_of_box(const Tensor& tensor, const Box& box) {
    return static_cast<std::uint64_t>(volume(box)) * info(tensor.dtype).bits / 8;
}

/// `name` with "*" in the place of each number.
std::string without_numbers(const std::string& name) {
    std::string pattern;
    for (const char c : name) {
        const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!digit)
            pattern += c;
        else if (pattern.empty() || pattern.back() != '*')
            pattern += '*';
    }
    return pattern;
}

/// The columns of the map: ranks, or files if the rank of some piece is unknown.
class Columns {
public:
    explicit Columns(const Catalogue& catalogue) : catalogue_{catalogue} {
        by_rank_ = std::ranges::none_of(catalogue.pieces, [](const Piece& piece) { return piece.rank < 0; });
        for (const Piece& piece : catalogue.pieces) count_ = std::max(count_, number(piece) + 1);
        each_ = std::max<std::size_t>(1, (count_ + most_columns - 1) / most_columns);
    }

    std::size_t count() const { return (count_ + each_ - 1) / each_; }
    std::size_t of(const Piece& piece) const { return number(piece) / each_; }

    Json json(const std::vector<std::uint64_t>& bytes) const {
        Json columns{{"kind", by_rank_ ? "rank" : "file"}, {"each", each_}, {"names", Json::array()}, {"bytes", bytes}};
        for (std::size_t column = 0; column < count(); ++column) {
            const std::size_t first = column * each_, last = std::min(count_, first + each_) - 1;
            columns["names"].push_back(first == last ? name(first) : fmt::format("{} to {}", name(first), name(last)));
        }
        return columns;
    }

private:
    std::size_t number(const Piece& piece) const {
        return by_rank_ ? static_cast<std::size_t>(piece.rank) : piece.file;
    }
    std::string name(std::size_t number) const {
        return by_rank_ ? std::to_string(number) : catalogue_.files[number].path.string();
    }

    const Catalogue& catalogue_;
    bool by_rank_ = true;
    std::size_t count_ = 0;  ///< ranks or files
    std::size_t each_ = 1;   ///< ranks or files that share a column
};

/// A row of the map: a tensor, or several whose names differ only in numbers.
struct Row {
    Json head;
    std::uint64_t tensors = 0, bytes = 0, missing = 0, replicas = 0;
    std::map<std::size_t, std::pair<std::uint64_t, std::uint64_t>> cells;  ///< bytes, and bytes of replicas, by column

    Json json() const {
        Json row = head;
        row.update({{"tensors", tensors},
                    {"bytes", bytes},
                    {"missing", missing},
                    {"replicas", replicas},
                    {"cells", Json::array()}});
        for (const auto& [column, stored] : cells) row["cells"].push_back({column, stored.first, stored.second});
        return row;
    }
};

/// The rows, and the row number of each tensor.
std::pair<std::vector<Row>, std::vector<std::size_t>> rows_of(const Json& tensors, const Catalogue& catalogue) {
    const bool grouped = catalogue.tensors.size() > most_rows;
    std::vector<Row> rows;
    std::vector<std::size_t> row_of;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> known;
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
        const Tensor& tensor = catalogue.tensors[t];
        const std::string name = grouped ? without_numbers(tensor.name) : tensor.name;
        const auto [at, is_new] = known.try_emplace({name, tensors[t]["role"], tensors[t]["dtype"]}, rows.size());
        if (is_new) {
            rows.emplace_back().head = tensors[t];
            rows.back().head["name"] = name;
            rows.back().head.erase("pieces");
        }
        Row& row = rows[at->second];
        if (row.head["shape"] != tensors[t]["shape"]) row.head["shape"] = nullptr;
        ++row.tensors;
        row.bytes += bytes_of_box(tensor, whole(tensor.shape));
        row_of.push_back(at->second);
    }
    return {std::move(rows), std::move(row_of)};
}

}  // namespace

std::string inspect_html(Json document, const Catalogue& catalogue, std::span<const Hole> holes) {
    auto [rows, row_of] = rows_of(document["tensor_list"], catalogue);
    document.erase("tensor_list");
    const Columns columns{catalogue};
    std::vector<std::uint64_t> stored(columns.count());
    for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        const bool replica =
            p > 0 && catalogue.pieces[p - 1].tensor == piece.tensor && catalogue.pieces[p - 1].box == piece.box;
        const std::uint64_t bytes = bytes_of_box(catalogue.tensors[piece.tensor], piece.box);
        Row& row = rows[row_of[piece.tensor]];
        auto& cell = row.cells[columns.of(piece)];
        (replica ? cell.second : cell.first) += bytes;
        if (replica) row.replicas += bytes;
        stored[columns.of(piece)] += bytes;
    }
    for (const Hole& hole : holes)
        rows[row_of[hole.tensor]].missing += bytes_of_box(catalogue.tensors[hole.tensor], hole.box);
    document["columns"] = columns.json(stored);
    document["rows"] = Json::array();
    for (const Row& row : rows) document["rows"].push_back(row.json());
    return html_page({.title = "tpx inspect",
                      .body = "inspect.html",
                      .styles = {"base.css", "inspect.css"},
                      .scripts = {"base.js", "table.js", "figure.js", "inspect.js"}},
                     document);
}

}  // namespace tpx::cli
