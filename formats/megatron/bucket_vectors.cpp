// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/bucket_vectors.hpp"

#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tpx::formats::megatron {
namespace {

constexpr std::string_view mark = "optimizer.distributed.dp_group_idx_";
constexpr int most_buckets = 1 << 20;

/// Removes `text` and the number after it from the front of `from`. Returns the number; unset if there is none.
std::optional<int> take_numbered(std::string_view& from, std::string_view text) {
    if (!from.starts_with(text)) return std::nullopt;
    std::string_view rest = from.substr(text.size());
    int number = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc{} || number < 0 || number >= most_buckets) return std::nullopt;
    from = rest.substr(static_cast<std::size_t>(end - rest.data()));
    return number;
}

/// Removes a prefix such as "chained_0.optimizer.distributed.dp_group_idx_3." from `key` and returns it. Returns "" for
/// keys without such a prefix.
std::string take_group(std::string_view& key) {
    const std::string_view all = key;
    std::string_view rest = key;
    if (take_numbered(rest, "chained_") && rest.starts_with('.')) rest.remove_prefix(1);
    if (!take_numbered(rest, mark) || !rest.starts_with('.')) return "";
    key = rest.substr(1);
    return std::string{all.substr(0, all.size() - key.size())};
}

/// The rest of a key after its group: "gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.exp_avg".
struct BucketKey {
    int buffer = 0;
    int bucket = 0;
    Role role = Role::master;
};

BucketKey parse_key(std::string_view key) {
    BucketKey parsed;
    const auto buffer = take_numbered(key, "gbuf_idx_");
    const std::size_t at = key.find(".bucket_idx_");
    if (!buffer || at == key.npos) throw failure("not the key of a bucket");
    key.remove_prefix(at + 1);
    const auto bucket = take_numbered(key, "bucket_idx_");
    if (!bucket || !key.starts_with('.')) throw failure("not the key of a bucket");
    return {*buffer, *bucket, role_of_vector(key.substr(1))};
}

class Reader {
public:
    explicit Reader(const Checkpoint& checkpoint) : checkpoint_{checkpoint}, catalogue_{checkpoint.catalogue} {
        store_.taken_tensors.assign(catalogue_.tensors.size(), false);
        store_.taken_objects.assign(catalogue_.objects.size(), false);
    }

    BucketStore read() {
        find_pieces();
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t)
            in_context([&] { return fmt::format("tensor '{}'", catalogue_.tensors[t].name); }, [&] { note_bucket(t); });
        for (const auto& [place, tensors] : buckets_) join(place, tensors);
        for (std::size_t o = 0; o < catalogue_.objects.size(); ++o)
            in_context([&] { return fmt::format("object '{}'", catalogue_.objects[o].name); }, [&] { add_object(o); });
        return std::move(store_);
    }

private:
    struct Place {
        std::string group;
        int buffer = 0;
        Role role = Role::master;
        auto operator<=>(const Place&) const = default;
    };

    void find_pieces() {
        runs_.resize(catalogue_.tensors.size());
        for (std::size_t p = 0; p < catalogue_.pieces.size(); ++p) {
            auto& [begin, end] = runs_[catalogue_.pieces[p].tensor];
            if (end == 0) begin = p;
            end = p + 1;
        }
    }

    void note_bucket(std::uint32_t t) {
        const Tensor& tensor = catalogue_.tensors[t];
        std::string_view key = tensor.name;
        const std::string group = take_group(key);
        if (group.empty()) return;
        store_.taken_tensors[t] = true;
        const BucketKey parsed = parse_key(key);
        if (tensor.shape.size() != 1 || itemsize(tensor.dtype) == 0)
            throw failure("{} of shape {} is not a bucket", name(tensor.dtype), to_string(tensor.shape));
        buckets_[{group, parsed.buffer, parsed.role}][parsed.bucket] = t;
    }

    void join(const Place& place, const std::map<int, std::uint32_t>& tensors) {
        BucketVector vector{.role = place.role, .dtype = catalogue_.tensors[tensors.begin()->second].dtype};
        Index before = 0;
        for (const auto& [bucket, t] : tensors) {
            const Tensor& tensor = catalogue_.tensors[t];
            if (bucket != static_cast<int>(vector.buckets.size()) || tensor.dtype != vector.dtype)
                throw failure("tensor '{}': bucket {} of its buffer is missing or of another dtype", tensor.name,
                              vector.buckets.size());
            for (std::size_t p = runs_[t].first; p < runs_[t].second; ++p) {
                const Piece& piece = catalogue_.pieces[p];
                if (p > runs_[t].first && piece.box == catalogue_.pieces[p - 1].box) continue;  // a replica
                vector.chunks.push_back(
                    {shift(piece.box[0], before), piece.file, piece.offset, checkpoint_.archives[p], piece.rank});
            }
            vector.buckets.push_back(tensor.shape[0]);
            before += tensor.shape[0];
        }
        store_.groups[place.group][place.buffer].push_back(std::move(vector));
    }

    /// Adds an object of dp_zero_gather_scatter: a list of one dict, which has the form of distrib_optim.pt.
    void add_object(std::size_t number) {
        const Object& object = catalogue_.objects[number];
        std::string_view key = object.name;
        const std::string group = take_group(key);
        if (group.empty()) return;
        store_.taken_objects[number] = true;
        if (!key.starts_with("param_state/")) return;
        const Fd fd = open_file(catalogue_.path(object.file), O_RDONLY);
        const torch::Archive archive = torch::Archive::open(range_of(catalogue_, object, fd));
        const torch::Value root = archive.root();
        if (!root.is(torch::Kind::list) || root.items().size() != 1 || archive.big_endian())
            throw failure("contains {}, not a list of one dict", root.describe());
        for (const auto& [buffer, vectors] : buffers_in(archive, root.items()[0])) {
            for (const BufferVector& vector : vectors) {
                const Index size = vector.stored.shape[0];
                store_.groups[group][buffer].push_back(
                    {vector.role, vector.stored.dtype, {size}, {{{0, size}, object.file, vector.stored.offset, 0, 0}}});
            }
        }
    }

    const Checkpoint& checkpoint_;
    const Catalogue& catalogue_;
    std::vector<std::pair<std::size_t, std::size_t>> runs_;  // of pieces: begin and end for each tensor
    std::map<Place, std::map<int, std::uint32_t>> buckets_;
    BucketStore store_;
};

}  // namespace

bool has_buckets(const Checkpoint& checkpoint) {
    const auto in_bucket = [](const auto& item) {
        std::string_view key = item.name;
        return !take_group(key).empty();
    };
    return std::ranges::any_of(checkpoint.catalogue.tensors, in_bucket) ||
           std::ranges::any_of(checkpoint.catalogue.objects, in_bucket);
}

BucketStore read_buckets(const Checkpoint& checkpoint) { return Reader{checkpoint}.read(); }

}  // namespace tpx::formats::megatron
