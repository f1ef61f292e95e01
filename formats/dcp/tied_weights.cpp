// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/tied_weights.hpp"

#include "formats/driver.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// The dtype, shape and boxes of a tensor; only tensors with equal kinds can be tied.
struct TensorKind {
    DType dtype = DType::f32;
    Shape shape;
    std::vector<Box> boxes;

    friend auto operator<=>(const TensorKind&, const TensorKind&) = default;
};

class Finder {
public:
    Finder(const Checkpoint& checkpoint, std::span<const std::uint32_t> tensors) : whole_{checkpoint} {
        const auto& pieces = checkpoint.catalogue.pieces;
        std::vector<std::vector<std::uint32_t>> of_tensor(checkpoint.catalogue.tensors.size());
        for (std::uint32_t p = 0; p < pieces.size(); ++p) of_tensor[pieces[p].tensor].push_back(p);
        for (const std::uint32_t t : tensors) {
            const Tensor& tensor = checkpoint.catalogue.tensors[t];
            if (tensor.shape.size() < 2 || volume(tensor.shape) == 0) continue;
            TensorKind kind{tensor.dtype, tensor.shape, {}};
            for (const std::uint32_t p : of_tensor[t]) kind.boxes.push_back(pieces[p].box);
            kinds_[kind].push_back({t, of_tensor[t]});
        }
    }

    std::map<std::uint32_t, std::uint32_t> find() {
        for (const auto& [kind, members] : kinds_) {
            if (members.size() > 1 && !members[0].pieces.empty()) compare(kind, members);
        }
        return std::move(repeated_);
    }

private:
    struct Member {
        std::uint32_t tensor = 0;
        std::vector<std::uint32_t> pieces;
    };

    /// A checkpoint of `members` only, with located payloads.
    Checkpoint located(const std::vector<Member>& members) const {
        Checkpoint part{.format = whole_.format};
        part.catalogue.directory = whole_.catalogue.directory;
        part.catalogue.files = whole_.catalogue.files;
        for (const Member& member : members) {
            for (const std::uint32_t p : member.pieces) {
                part.catalogue.pieces.push_back(whole_.catalogue.pieces[p]);
                part.catalogue.pieces.back().tensor = static_cast<std::uint32_t>(part.catalogue.tensors.size());
                if (!whole_.archives.empty()) part.archives.push_back(whole_.archives[p]);
                if (!whole_.archive_slices.empty()) part.archive_slices.push_back(whole_.archive_slices[p]);
            }
            part.catalogue.tensors.push_back(whole_.catalogue.tensors[member.tensor]);
        }
        std::vector<std::uint32_t> all(part.catalogue.pieces.size());
        std::iota(all.begin(), all.end(), 0);
        locate(part, all);
        return part;
    }

    void compare(const TensorKind& kind, const std::vector<Member>& members) {
        const Checkpoint part = located(members);
        const std::size_t count = kind.boxes.size();
        std::map<std::string, std::vector<std::size_t>> alike;  // members by their first bytes
        for (std::size_t m = 0; m < members.size(); ++m) {
            const auto begin = part.catalogue.pieces.begin() + static_cast<std::ptrdiff_t>(m * count);
            const bool dense = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(count), [&](const Piece& piece) {
                return piece.strides.empty() || piece.strides == row_major(sizes(piece.box));
            });
            if (!dense) continue;
            auto& same = alike[bytes(part.catalogue, *begin, 0, first_bytes)];
            const auto original = std::ranges::find_if(same, [&](std::size_t other) {
                return are_equal(part.catalogue, &*begin, &part.catalogue.pieces[other * count], count);
            });
            if (original == same.end())
                same.push_back(m);
            else
                repeated_[members[m].tensor] = members[*original].tensor;
        }
    }

    static bool are_equal(const Catalogue& catalogue, const Piece* a, const Piece* b, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k) {
            const auto size =
                static_cast<std::uint64_t>(volume(sizes(a[k].box)) * itemsize(catalogue.tensors[a[k].tensor].dtype));
            for (std::uint64_t at = 0; at < size; at += chunk_bytes)
                if (bytes(catalogue, a[k], at, chunk_bytes) != bytes(catalogue, b[k], at, chunk_bytes)) return false;
        }
        return true;
    }

    /// Up to `most` bytes of a piece, starting at `begin`.
    static std::string bytes(const Catalogue& catalogue, const Piece& piece, std::uint64_t begin, std::uint64_t most) {
        const auto size =
            static_cast<std::uint64_t>(volume(sizes(piece.box)) * itemsize(catalogue.tensors[piece.tensor].dtype));
        const std::filesystem::path path = catalogue.path(piece.file);
        const Fd fd = open_file(path, O_RDONLY);
        std::string found(std::min(most, size - std::min(begin, size)), '\0');
        read_at(fd, piece.offset + begin, std::as_writable_bytes(std::span{found}), path);
        return found;
    }

    static constexpr std::uint64_t first_bytes = 4096;
    static constexpr std::uint64_t chunk_bytes = std::uint64_t{4} << 20;

    const Checkpoint& whole_;
    std::map<TensorKind, std::vector<Member>> kinds_;
    std::map<std::uint32_t, std::uint32_t> repeated_;
};

}  // namespace

std::map<std::uint32_t, std::uint32_t> repeated_matrices(const Checkpoint& checkpoint,
                                                         std::span<const std::uint32_t> tensors) {
    const bool readable = !checkpoint.archives.empty() || checkpoint.format->is_hugging_face;
    return readable ? Finder{checkpoint, tensors}.find() : std::map<std::uint32_t, std::uint32_t>{};
}

}  // namespace tpx::formats
