// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/draft_chunks.hpp"

#include "formats/encodings/dcp/write_metadata.hpp"
#include "formats/encodings/file_blocks.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "lib/core/digest.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// `text` as 32 digits in the form of a UUID; equal texts have equal ones.
std::string uuid_of(const std::string& text) {
    const auto crc_of = [](const std::string& bytes) {
        Digest digest;
        const Index length = std::ssize(bytes);
        add(digest, Shape{length}, 1, Box{{0, length}}, std::as_bytes(std::span{bytes}).data());
        return digest.crc;
    };
    std::string id = fmt::format("{:016x}{:016x}", crc_of(text), crc_of(text + " of a checkpoint"));
    for (const std::size_t dash : {8, 13, 18, 23}) id.insert(dash, 1, '-');
    return id;
}

/// The pieces to store, in the catalogue's order: empty pieces are omitted, and of equal boxes only the piece of the
/// lowest rank is kept.
std::vector<Piece> stored_pieces(const Content& content) {
    std::vector<Piece> pieces;
    for (const Piece& piece : content.pieces) {
        if (empty(piece.box)) continue;
        pieces.push_back(piece);
        pieces.back().rank = std::max(piece.rank, 0);
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        return std::tie(a.tensor, a.box, a.rank) < std::tie(b.tensor, b.box, b.rank);
    });
    const auto replica = [](const Piece& a, const Piece& b) { return a.tensor == b.tensor && a.box == b.box; };
    pieces.erase(std::unique(pieces.begin(), pieces.end(), replica), pieces.end());
    return pieces;
}

/// Places archives and objects in one file per rank, or per `file` number of the rank's pieces. They are stored back to
/// back, except that gaps align large payloads within their blocks.
class FileLayout {
public:
    FileLayout(const Content& content, const std::filesystem::path& folder) : content_{content}, folder_{folder} {
        draft_.tensors = content.tensors;
        draft_.pieces = stored_pieces(content);
        lengths_.resize(draft_.pieces.size());
        prefixes_.resize(draft_.pieces.size());
    }

    void place_objects(const NewObjects& objects) {
        if (objects.kept.empty() && objects.made.empty()) return;
        open_file_of(0, number_for_objects());
        for (const Object& object : objects.kept) {
            draft_.copies.push_back(
                {content_.source->catalogue.path(object.file), object.offset, object.length, file_, end_});
            objects_.push_back({object.name, file_, end_, object.length});
            end_ += object.length;
        }
        for (const NewObjects::Made& object : objects.made) {
            objects_.push_back({object.name, file_, end_, object.bytes.size()});
            put(object.bytes);
        }
    }

    /// Places entries whose bytes are known: objects and scalar tensors.
    void place_entries(std::span<const KnownEntry> entries) {
        if (entries.empty()) return;
        if (rank_ != 0) open_file_of(0, number_for_objects());
        for (const KnownEntry& entry : entries) {
            if (entry.tensor) {
                scalars_.push_back({static_cast<std::uint32_t>(scalar_tensors_.size()), file_, end_, {}, {}, 0});
                scalar_tensors_.push_back({entry.name, DType::f32, {}});
                scalar_lengths_.push_back(entry.archive.size());
            } else {
                objects_.push_back({entry.name, file_, end_, entry.archive.size()});
            }
            put(entry.archive);
        }
        flush();
    }

    void place_pieces() {
        std::vector<std::uint32_t> order(draft_.pieces.size());
        std::iota(order.begin(), order.end(), 0);
        const auto file_of = [&](std::uint32_t index) {
            return std::pair{draft_.pieces[index].rank, draft_.pieces[index].file};
        };
        std::ranges::stable_sort(order, {}, file_of);
        for (std::uint32_t index : order) {
            const auto [rank, number] = file_of(index);
            if (rank != rank_ || number != number_) open_file_of(rank, number);
            place(index);
        }
        close_file();
    }

    Draft finish(bool planner_data, const torch::Value* paths) {
        std::vector<Tensor> tensors = draft_.tensors;
        std::vector<Piece> pieces = draft_.pieces;
        tensors.insert(tensors.end(), scalar_tensors_.begin(), scalar_tensors_.end());
        for (Piece piece : scalars_) {
            piece.tensor += static_cast<std::uint32_t>(draft_.tensors.size());
            pieces.push_back(piece);
        }
        lengths_.insert(lengths_.end(), scalar_lengths_.begin(), scalar_lengths_.end());
        MetadataContent metadata{draft_.files, tensors, pieces, lengths_, objects_, planner_data, nullptr};
        if (paths != nullptr)
            metadata.known_planner_data = paths;
        else if (content_.source != nullptr)
            metadata.known_planner_data = content_.source->planner_data.get();
        metadata.save_id = new_save_id();
        add_file(draft_, folder_ / ".metadata", write_metadata(metadata));
        for (std::size_t i = 0; i < draft_.pieces.size(); ++i) draft_.pieces[i].offset += prefixes_[i];
        return std::move(draft_);
    }

private:
    /// The identifier of this save, by which the parts of a checkpoint on several hosts show that they belong together.
    /// While values stay the same, it is the source's, so that equal contents give equal bytes whatever the layouts
    /// between. A source without one is identified by its iteration; empty if that is unknown, too.
    std::string new_save_id() const {
        if (content_.source == nullptr) return {};
        const Checkpoint& source = *content_.source;
        std::string id = source.save_id;
        if (id.empty() && source.iteration) id = uuid_of(fmt::format("iteration {}", *source.iteration));
        return id.empty() || !content_.cast ? id : uuid_of(fmt::format("{} as {}", id, name(*content_.cast)));
    }

    /// The number of rank 0's file for objects: 0 or, if files are split by holders, one more than its last file.
    std::uint32_t number_for_objects() const {
        std::uint32_t number = 0;
        for (const Piece& piece : draft_.pieces)
            if (content_.split_by_holders && piece.rank == 0) number = std::max(number, piece.file + 1);
        return number;
    }

    void open_file_of(std::int32_t rank, std::uint32_t number) {
        close_file();
        rank_ = rank;
        number_ = number;
        file_ = std::uint32_t(draft_.files.size());
        draft_.files.push_back({folder_ / fmt::format("__{}_{}.distcp", rank, number), 0});
    }

    void close_file() {
        if (rank_ < 0) return;
        flush();
        draft_.files[file_].size = end_;
        end_ = 0;
    }

    /// Adds the bytes between the previous payload and the next one to the draft as one run of fixed bytes.
    void flush() {
        if (!bytes_.empty()) draft_.fixed.push_back({file_, end_ - bytes_.size(), std::move(bytes_)});
        bytes_.clear();
    }

    void place(std::uint32_t index) {
        Piece& piece = draft_.pieces[index];
        const torch::TensorFrame& frame = frame_of(piece);
        if (frame.payload >= min_aligned_bytes) leave_gap(gap_to(end_ + frame.prefix.size(), piece.offset));
        for (std::uint64_t crc : frame.crcs) draft_.crc_slots.push_back({index, file_, end_ + crc});
        piece.file = file_;
        piece.offset = end_;
        piece.strides = row_major(sizes(piece.box));
        lengths_[index] = frame.size();
        prefixes_[index] = frame.prefix.size();
        put(frame.prefix);
        flush();
        end_ += frame.payload;
        put(frame.suffix);
    }

    void leave_gap(std::uint64_t bytes) {
        if (bytes > 0) flush();
        end_ += bytes;
    }

    void put(const std::string& bytes) {
        bytes_ += bytes;
        end_ += bytes.size();
    }

    const torch::TensorFrame& frame_of(const Piece& piece) {
        const Tensor& tensor = draft_.tensors[piece.tensor];
        const auto key = std::pair{tensor.dtype, sizes(piece.box)};
        const auto known = frames_.find(key);
        if (known != frames_.end()) return known->second;
        return in_context(
            [&] { return fmt::format("tensor '{}'", tensor.name); },
            [&]() -> auto& { return frames_.emplace(key, torch::frame_tensor(key.first, key.second)).first->second; });
    }

    const Content& content_;
    std::filesystem::path folder_;
    Draft draft_;
    std::vector<std::uint64_t> lengths_;   // of the archives
    std::vector<std::uint64_t> prefixes_;  // of the archives' bytes before the payload
    std::vector<Object> objects_;
    std::vector<Tensor> scalar_tensors_;  // with known bytes; Piece::tensor of scalars_ is an index into these
    std::vector<Piece> scalars_;
    std::vector<std::uint64_t> scalar_lengths_;
    std::map<std::pair<DType, Shape>, torch::TensorFrame> frames_;
    std::int32_t rank_ = -1;    // of the open file
    std::uint32_t number_ = 0;  // of the open file among its rank's files
    std::uint32_t file_ = 0;    // index of the open file
    std::uint64_t end_ = 0;     // of the bytes placed in the open file
    std::string bytes_;         // the last bytes before end_, which are not in the draft yet
};

}  // namespace

Draft draft_chunks(const Content& content, const std::filesystem::path& folder, bool planner_data,
                   const NewObjects& objects, std::span<const KnownEntry> entries) {
    FileLayout layout{content, folder};
    layout.place_objects(objects);
    layout.place_entries(entries);
    layout.place_pieces();
    return layout.finish(planner_data, objects.paths.get());
}

}  // namespace tpx::formats
