// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/adam_entries.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/dcp/flattened_state.hpp"
#include "formats/dcp/held.hpp"
#include "formats/encodings/held/document.hpp"
#include "formats/encodings/torch/value.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>

namespace tpx::formats {
namespace held {
namespace {

constexpr std::uint64_t alignment = 64;  // as torch aligns tensors

constexpr std::uint64_t aligned(std::uint64_t offset) { return (offset + alignment - 1) / alignment * alignment; }

std::string little_endian(std::uint32_t value) {
    std::string bytes(sizeof value, '\0');
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// The values other than tensors, which every rank gets.
struct Common {
    NewObjects objects;
    std::vector<KnownEntry> adam;
    float step = 0;
    std::unordered_map<std::string, KeyPath> paths;  // key paths by name
};

Common common_of(const Content& content) {
    Common common;
    if (content.source == nullptr) return common;
    if (content.source->format == &dcp_driver)
        common.objects.kept = content.source->catalogue.objects;
    else
        common.objects = flattened_state(content);
    common.adam = adam_entries(content);
    if (content.adam) common.step = static_cast<float>(content.adam->step);
    const torch::Value* paths = common.objects.paths ? common.objects.paths.get() : content.source->planner_data.get();
    for (const auto& [name, keys] : paths != nullptr ? paths->entries() : std::span<const torch::Entry>{}) {
        KeyPath& path = common.paths[std::string{name.as_string()}];
        for (const torch::Value key : keys.items()) {
            if (key.is(torch::Kind::integer))
                path.emplace_back(key.as_int());
            else
                path.emplace_back(std::string{key.as_string()});
        }
    }
    return common;
}

/// Adds the segment of one rank to the draft.
class SegmentLayout {
public:
    SegmentLayout(Draft& draft, const Content& content, const Common& common, int rank)
        : draft_{draft}, content_{content}, common_{common}, file_{static_cast<std::uint32_t>(draft.files.size())} {
        document_.rank = rank;
        document_.ranks = content.ranks;
        document_.layout = to_string(content.layout);
        if (content.source != nullptr) document_.iteration = content.source->iteration;
    }

    void place(const Piece& piece) {
        const Tensor& tensor = content_.tensors[piece.tensor];
        if (itemsize(tensor.dtype) == 0 || info(tensor.dtype).torch.empty())
            throw failure("tensor '{}': {} cannot be held in memory, because torch has no such type", tensor.name,
                          name(tensor.dtype));
        HeldTensor held{tensor.name, tensor.dtype, tensor.shape, piece.box, aligned(end_), path_of(tensor.name)};
        pieces_.push_back(static_cast<std::uint32_t>(draft_.pieces.size()));
        draft_.pieces.push_back({piece.tensor, file_, held.offset, piece.box, row_major(sizes(piece.box)), piece.rank});
        end_ = held.offset + payload(held);
        document_.tensors.push_back(std::move(held));
    }

    /// Adds the values that every rank gets and the document of the segment.
    void finish() {
        for (const Object& object : common_.objects.kept) {
            draft_.copies.push_back(
                {content_.source->catalogue.path(object.file), object.offset, object.length, file_, aligned(end_)});
            add_object(object.name, object.length);
        }
        for (const NewObjects::Made& object : common_.objects.made) put_object(object.name, object.bytes);
        for (const KnownEntry& entry : common_.adam)
            entry.tensor ? put_step(entry.name) : put_object(entry.name, entry.archive);
        put_crcs();
        document_.size = end_;
        std::string text = write_document(document_);
        draft_.files.push_back({fmt::format("rank-{:05}.bin", document_.rank), end_});
        draft_.files.push_back({fmt::format("rank-{:05}.json", document_.rank), text.size()});
        draft_.fixed.push_back({file_ + 1, 0, std::move(text)});
    }

private:
    KeyPath path_of(const std::string& name) const {
        const auto known = common_.paths.find(name);
        return known == common_.paths.end() ? KeyPath{name} : known->second;
    }

    void add_object(const std::string& name, std::uint64_t length) {
        document_.objects.push_back({name, aligned(end_), length, path_of(name)});
        end_ = aligned(end_) + length;
    }

    void put_object(const std::string& name, const std::string& bytes) {
        draft_.fixed.push_back({file_, aligned(end_), bytes});
        add_object(name, bytes.size());
    }

    void put_step(const std::string& name) {
        HeldTensor held{name, DType::f32, {}, {}, aligned(end_), path_of(name)};
        std::string bytes = little_endian(std::bit_cast<std::uint32_t>(common_.step));
        step_crc_ = zip_crc(Crc32::of(std::as_bytes(std::span{bytes})), bytes.size());
        end_ = held.offset + bytes.size();
        draft_.fixed.push_back({file_, held.offset, std::move(bytes)});
        document_.tensors.push_back(std::move(held));
    }

    /// Adds a table of CRCs at the end of the segment; those of pieces are known only after the pieces have been
    /// copied.
    void put_crcs() {
        document_.crcs = aligned(end_);
        end_ = *document_.crcs + 4 * document_.tensors.size();
        std::string table(4 * pieces_.size(), '\0');
        for (std::size_t k = 0; k < pieces_.size(); ++k)
            draft_.crc_slots.push_back({pieces_[k], file_, *document_.crcs + 4 * k});
        for (std::size_t k = pieces_.size(); k < document_.tensors.size(); ++k) table += little_endian(step_crc_);
        if (!table.empty()) draft_.fixed.push_back({file_, *document_.crcs, std::move(table)});
    }

    Draft& draft_;
    const Content& content_;
    const Common& common_;
    std::uint32_t file_;
    Document document_;
    std::vector<std::uint32_t> pieces_;  // numbers in the draft, in the document's order
    std::uint32_t step_crc_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace
}  // namespace held

Draft draft_held(const Content& content) {
    const held::Common common = held::common_of(content);
    std::map<int, std::vector<const Piece*>> pieces;
    for (const int rank : *content.held) pieces[rank];  // including ranks without tensors
    for (const Piece& piece : content.pieces) pieces[piece.rank].push_back(&piece);
    Draft draft;
    draft.tensors = content.tensors;
    for (auto& [rank, own] : pieces) {
        std::ranges::sort(own, {}, [](const Piece* piece) { return std::tie(piece->tensor, piece->box); });
        held::SegmentLayout layout{draft, content, common, rank};
        for (const Piece* piece : own) layout.place(*piece);
        layout.finish();
    }
    return draft;
}

}  // namespace tpx::formats
