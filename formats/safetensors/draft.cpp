// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/file_blocks.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/layout/adapter_family.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

namespace tpx::formats {
namespace safetensors {
namespace {

constexpr std::uint64_t usual_shard_size = 5'000'000'000;

/// A new file and its pieces.
struct Part {
    std::string path;
    std::vector<std::uint32_t> pieces;
    std::uint64_t bytes = 0;
};

/// The first part, starting at `first`, with room for `bytes` more, or a new one. A piece larger than `limit` gets a
/// separate part.
std::size_t first_fit(std::vector<Part>& parts, std::size_t first, std::uint64_t bytes, std::uint64_t limit) {
    while (first < parts.size() && (parts[first].bytes + bytes > limit && !parts[first].pieces.empty())) ++first;
    if (first == parts.size()) parts.emplace_back();
    return first;
}

class Drafter {
public:
    Drafter(const Content& content, std::vector<std::string>* notes)
        : content_{content}, limit_{content.shard_size.value_or(usual_shard_size)} {
        if (content.source != nullptr && content.source->format == &safetensors_driver) take_values(notes);
        draft_.tensors = content.tensors;
        draft_.pieces = content.pieces;
        for (Piece& piece : draft_.pieces) piece.file = 0, piece.strides = row_major(sizes(piece.box));
        std::vector<bool> held(content.tensors.size());
        for (const Piece& piece : content.pieces) held[piece.tensor] = true;
        for (std::size_t k = 0; k < held.size(); ++k) {
            if (!held[k]) throw failure("tensor '{}': no rank holds it", content.tensors[k].name);
        }
        for (const Piece& piece : content.pieces) {
            in_context([&] { return fmt::format("tensor '{}'", tensor(piece).name); }, [&] { check(piece); });
        }
    }

    Draft draft() {
        if (is_whole()) {
            draft_whole();
        } else {
            draft_ranks();
        }
        return std::move(draft_);
    }

private:
    /// Takes the header values of the source if names and dtypes of tensors, which they may describe, stay.
    void take_values(std::vector<std::string>* notes) {
        values_ = header_values(*content_.source);
        if (values_.empty() || stores_alike(*content_.source, content_.tensors)) return;
        if (notes != nullptr) notes->push_back(dropped_values_note(values_));
        values_.clear();
    }

    const Tensor& tensor(const Piece& piece) const { return content_.tensors[piece.tensor]; }

    void check(const Piece& piece) const {
        const Tensor& whole_one = tensor(piece);
        const DType dtype = whole_one.dtype;
        if (info(dtype).safetensors.empty() && dtype != DType::f4_x2)
            throw failure("safetensors has no dtype {}", name(dtype));
        bytes(piece);
        if (dtype == DType::f4_x2 && piece.box.empty()) throw failure("a scalar cannot store two values per element");
        if (itemsize(dtype) == 0 && piece.box != whole(whole_one.shape))
            throw failure("{} elements are smaller than a byte and cannot be split", name(dtype));
        if (content_.ranks > 1 && (piece.rank < 0 || piece.rank >= content_.ranks))
            throw failure("rank {} of {}", piece.rank, content_.ranks);
    }

    /// Whether a single rank holds each tensor whole and exactly once.
    bool is_whole() const {
        if (content_.ranks > 1 || content_.pieces.size() != content_.tensors.size()) return false;
        std::vector<bool> seen(content_.tensors.size());
        for (const Piece& piece : content_.pieces) {
            if (seen[piece.tensor] || piece.box != whole(tensor(piece).shape)) return false;
            seen[piece.tensor] = true;
        }
        return true;
    }

    std::uint64_t bytes(const Piece& piece) const { return payload_size(tensor(piece).dtype, sizes(piece.box)); }

    /// Packs as huggingface_hub does: a tensor larger than the limit gets a separate part, after the closed parts,
    /// while the open part continues.
    void draft_whole() {
        std::vector<Part> parts;
        Part open;
        std::vector<std::uint32_t> order(content_.pieces.size());
        for (std::uint32_t index = 0; index < order.size(); ++index) order[content_.pieces[index].tensor] = index;
        for (const std::uint32_t index : order) {
            const std::uint64_t size = bytes(content_.pieces[index]);
            if (size > limit_) {
                parts.push_back({{}, {index}, size});
                continue;
            }
            if (open.bytes + size > limit_) parts.push_back(std::exchange(open, {}));
            open.pieces.push_back(index);
            open.bytes += size;
        }
        if (!open.pieces.empty() || parts.empty()) parts.push_back(std::move(open));
        for (std::size_t k = 0; k < parts.size(); ++k) {
            parts[k].path = parts.size() == 1 ? single_file()
                                              : fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, parts.size());
            place(parts[k], {{"format", "pt"}});
        }
        if (parts.size() > 1) write_index();
    }

    /// The name of the only file. PEFT finds an adapter by its file name.
    const char* single_file() const {
        constexpr const char* adapter = "adapter_model.safetensors";
        if (content_.reading != nullptr && content_.reading->family != nullptr &&
            is_adapter_family(*content_.reading->family))
            return adapter;
        const Checkpoint* source = content_.source;
        const bool is_adapter = source != nullptr && source->format == &safetensors_driver &&
                                source->catalogue.files.size() == 1 && source->catalogue.files[0].path == adapter;
        return is_adapter ? adapter : "model.safetensors";
    }

    /// Whether `piece` is an empty part of a nonempty tensor. It is not written: PyTorch identifies parts by their
    /// start, and another part may start there.
    bool is_nothing(const Piece& piece) const { return empty(piece.box) && volume(tensor(piece).shape) > 0; }

    void draft_ranks() {
        std::vector<std::vector<Part>> parts(std::max(content_.ranks, 1));
        std::vector<std::unordered_map<std::uint32_t, std::size_t>> next(
            parts.size());  // by tensor: the number of the part after its last one
        for (std::uint32_t index = 0; index < content_.pieces.size(); ++index) {
            const Piece& piece = content_.pieces[index];
            const int rank = std::max(piece.rank, 0);
            if (is_nothing(piece)) continue;
            std::size_t& first = next[rank][piece.tensor];
            const std::size_t chosen = first_fit(parts[rank], first, bytes(piece), limit_);
            parts[rank][chosen].pieces.push_back(index);
            parts[rank][chosen].bytes += bytes(piece);
            first = chosen + 1;
        }
        for (std::size_t rank = 0; rank < parts.size(); ++rank) {
            // A rank without pieces also has a file, so that a missing file is detected.
            if (parts[rank].empty()) parts[rank].emplace_back();
            for (std::size_t k = 0; k < parts[rank].size(); ++k) {
                Part& part = parts[rank][k];
                part.path =
                    fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", rank + 1, k + 1, parts[rank].size());
                place(part, {{"format", "pt"},
                             {"DCP_VERSION", "1.0"},
                             {"DCP_SHARDING_INFO", sharding_info(part)},
                             {ranks_key, std::to_string(parts.size())},
                             {file_key, part.path}});
            }
        }
    }

    /// Converts sizes or offsets to safetensors' dtype: PyTorch counts two f4 values as one element.
    template <class T>
    T stored(DType dtype, T values) const {
        if (dtype == DType::f4_x2) values[values.size() - 1] *= 2;
        return values;
    }

    std::string sharding_info(const Part& part) const {
        // PyTorch's consolidation treats an empty list as a missing one, but accepts tensors that are in other files.
        if (part.pieces.empty() && !content_.tensors.empty())
            return fmt::format("{{{}: {{\"saved_offsets\": []}}}}", json_string(content_.tensors[0].name));
        std::string json = "{";
        for (const std::uint32_t index : part.pieces) {
            const Piece& piece = content_.pieces[index];
            Tuple<Index> begin;
            for (const Interval side : piece.box) begin.push_back(side.begin);
            begin = stored(tensor(piece).dtype, begin);
            fmt::format_to(std::back_inserter(json), "{}{}: {{\"saved_offsets\": [{}]}}", json.size() == 1 ? "" : ", ",
                           json_string(tensor(piece).name), fmt::join(begin.begin(), begin.end(), ", "));
        }
        return json + "}";
    }

    /// The position in a block at which the data should start to align the most bytes of large pieces. Unset if there
    /// are none. Ignores positions that are not multiples of 8, because headers do not end there.
    std::optional<std::uint64_t> place_of_data(std::span<const Entry> entries,
                                               const std::unordered_map<std::string_view, std::uint32_t>& piece_of) {
        std::map<std::uint64_t, std::uint64_t> votes;
        for (const Entry& entry : entries) {
            const std::uint64_t wanted = content_.pieces[piece_of.at(entry.name)].offset;
            const std::uint64_t place = gap_to(entry.begin, wanted);
            if (entry.end - entry.begin >= min_aligned_bytes && place % 8 == 0) votes[place] += entry.end - entry.begin;
        }
        const auto best = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
        return best == votes.end() ? std::nullopt : std::optional{best->first};
    }

    /// Adds the file of `part` to the draft: its header and the offsets of its pieces.
    void place(const Part& part, Metadata metadata) {
        metadata.insert(metadata.end(), values_.begin(), values_.end());
        std::vector<Entry> entries;
        std::unordered_map<std::string_view, std::uint32_t> piece_of;
        for (const std::uint32_t index : part.pieces) {
            const Piece& piece = content_.pieces[index];
            const DType dtype = tensor(piece).dtype;
            entries.push_back(
                {tensor(piece).name, dtype == DType::f4_x2 ? DType::f4 : dtype, stored(dtype, sizes(piece.box))});
            if (!piece_of.emplace(tensor(piece).name, index).second)
                throw failure("tensor '{}': appears twice", tensor(piece).name);
        }
        const std::uint64_t buffer = arrange(entries);
        const auto file = static_cast<std::uint32_t>(draft_.files.size());
        std::string header =
            in_context([&] { return part.path; },
                       [&] { return write_header(metadata, entries, place_of_data(entries, piece_of)); });
        for (const Entry& entry : entries) {
            Piece& piece = draft_.pieces[piece_of.at(entry.name)];
            piece.file = file;
            piece.offset = header.size() + entry.begin;
        }
        draft_.files.push_back({part.path, header.size() + buffer});
        draft_.fixed.push_back({file, 0, std::move(header)});
    }

    void write_index() {
        std::uint64_t total_size = 0;
        std::int64_t total_parameters = 0;
        nlohmann::json weight_map = nlohmann::json::object();
        for (const Piece& piece : draft_.pieces) {
            total_size += bytes(piece);
            total_parameters += volume(piece.box);
            weight_map[tensor(piece).name] = draft_.files[piece.file].path.string();
        }
        const nlohmann::json index{{"metadata", {{"total_parameters", total_parameters}, {"total_size", total_size}}},
                                   {"weight_map", std::move(weight_map)}};
        std::string text = index.dump(2, ' ', true) + "\n";
        const auto file = static_cast<std::uint32_t>(draft_.files.size());
        draft_.files.push_back({"model.safetensors.index.json", text.size()});
        draft_.fixed.push_back({file, 0, std::move(text)});
    }

    const Content& content_;
    std::uint64_t limit_;
    std::map<std::string, std::string> values_;  // in the headers of the source
    Draft draft_;
};

}  // namespace
}  // namespace safetensors

Draft draft_safetensors(const Content& content, std::vector<std::string>* notes) {
    return safetensors::Drafter(content, notes).draft();
}

}  // namespace tpx::formats
