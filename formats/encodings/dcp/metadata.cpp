// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/metadata.hpp"

#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/value.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

constexpr auto nowhere = std::numeric_limits<std::uint32_t>::max();

/// The shape that a torch.Size, or a tuple or list in its place, contains. Throws Error for negative dimensions.
Shape shape_of(Value value) {
    Shape shape;
    const auto items = value.items();
    if (items.size() > std::size_t(max_rank)) throw failure("{} axes (at most {})", items.size(), max_rank);
    for (Value item : items) {
        shape.push_back(item.as_int());
        if (item.as_int() < 0) throw failure("negative dimension {}", item.as_int());
    }
    return shape;
}

void check_inside(std::string_view path) {
    const std::filesystem::path parsed{path};
    const bool up = std::any_of(parsed.begin(), parsed.end(), [](const auto& part) { return part == ".."; });
    if (path.empty() || parsed.is_absolute() || up || path.find('\0') != path.npos || !parsed.has_filename() ||
        parsed.filename() == ".")
        throw failure("path '{}' does not name a file of this directory", path);
}

/// Fills a checkpoint from the tree of a Metadata object. Classes are recognized by name, whatever their module: the
/// modules changed over the years, and the fsspec and NVRx writers have their own.
class Reader {
public:
    explicit Reader(Checkpoint& checkpoint) : checkpoint_{checkpoint}, catalogue_{checkpoint.catalogue} {}

    void read(Value root) {
        // Megatron-core 0.15 writes a subclass of torch's.
        const std::string_view name = root.class_name();
        if (name != "Metadata" && name != "MCoreMetadata")
            throw failure("contains {}, not the metadata of DCP", root.describe());
        const Value storage = root.attribute_at("storage_data");
        most_pieces_ = storage.entries().size();
        catalogue_.pieces.reserve(most_pieces_);
        read_state(root.attribute_at("state_dict_metadata"));
        read_save_id(root);
        sort_pieces();
        read_storage(storage);
        check_stored();
        order_pieces();
    }

private:
    void read_state(Value state) {
        names_.reserve(state.entries().size());
        for (const auto& [key, item] : state.entries()) {
            const std::string_view name = key.as_string();
            in_context([&, n = name] { return fmt::format("tensor '{}'", n); },
                       [&, n = name, i = item] { read_item(n, i); });
        }
    }

    void read_save_id(Value root) {
        const auto meta = root.attribute("storage_meta");
        if (!meta || !meta->is(Kind::object)) return;
        const auto id = meta->attribute("save_id");
        if (id && id->is(Kind::string)) checkpoint_.save_id = id->as_string();
    }

    void read_item(std::string_view name, Value item) {
        if (names_.contains(name)) throw failure("is named twice");
        if (item.class_name() == "BytesStorageMetadata") {
            names_[name] = {true, std::uint32_t(catalogue_.objects.size())};
            catalogue_.objects.push_back({std::string{name}, nowhere, 0, 0});
            return;
        }
        if (item.class_name() != "TensorStorageMetadata") throw failure("is {}", item.describe());
        names_[name] = {false, std::uint32_t(catalogue_.tensors.size())};
        const Shape shape = shape_of(item.attribute_at("size"));
        if (checked_volume(shape) < 0) throw failure("shape {} is too large", to_string(shape));
        catalogue_.tensors.push_back({std::string{name}, dtype_of(item.attribute_at("properties")), shape});
        for (Value chunk : item.attribute_at("chunks").items()) read_chunk(chunk);
    }

    static DType dtype_of(Value properties) {
        // (dtype, layout, requires_grad, memory format, pin_memory[, strides])
        const auto fields = properties.as_object().state.items();
        if (fields.size() < 5) throw failure("{} tensor properties (at least 5)", fields.size());
        const Value layout = fields[1];
        const auto arguments = layout.is(Kind::object) ? layout.as_object().args.items() : std::span<const Value>{};
        if (arguments.size() == 1 && arguments[0].is(Kind::string) && arguments[0].as_string() != "torch.strided")
            throw failure("layout {} is not supported", arguments[0].as_string());
        const std::string_view name = fields[0].as_global().name;
        const auto dtype = dtype_by_torch(name);
        if (!dtype) throw failure("dtype {} is unknown", name);
        return *dtype;
    }

    void read_chunk(Value chunk) {
        const Tensor& tensor = catalogue_.tensors.back();
        const auto index = std::uint32_t(catalogue_.tensors.size() - 1);
        const Shape begin = shape_of(chunk.attribute_at("offsets"));
        const Shape size = shape_of(chunk.attribute_at("sizes"));
        if (begin.size() != tensor.shape.size() || size.size() != tensor.shape.size())
            throw failure("chunk at {} of size {} in shape {}", to_string(begin), to_string(size),
                          to_string(tensor.shape));
        Piece piece{index, nowhere, 0, {}, {}, -1};
        for (int axis = 0; axis < size.size(); ++axis) {
            if (begin[axis] > tensor.shape[axis] || size[axis] > tensor.shape[axis] - begin[axis])
                throw failure("chunk at {} of size {} exceeds the shape {}", to_string(begin), to_string(size),
                              to_string(tensor.shape));
            piece.box.push_back({begin[axis], begin[axis] + size[axis]});
        }
        if (empty(piece.box)) {
            without_elements_.emplace(index, begin);
            return;
        }
        if (catalogue_.pieces.size() == most_pieces_)
            throw failure("there are more chunks than the {} entries of storage_data", most_pieces_);
        catalogue_.pieces.push_back(piece);
    }

    /// Sorts the pieces of each tensor by where their boxes begin, for place().
    void sort_pieces() {
        auto& pieces = catalogue_.pieces;
        starts_.assign(catalogue_.tensors.size() + 1, 0);
        for (const Piece& piece : pieces) ++starts_[piece.tensor + 1];
        for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
        const auto in_order = [](const Piece& a, const Piece& b) { return compare(a.box, b.box) < 0; };
        for (std::size_t i = 0; i + 1 < starts_.size(); ++i) {
            const auto first = pieces.begin() + starts_[i], last = pieces.begin() + starts_[i + 1];
            if (!std::is_sorted(first, last, in_order)) std::sort(first, last, in_order);
        }
        checkpoint_.archives.assign(pieces.size(), 0);
    }

    void read_storage(Value storage) {
        for (const auto& [index, info] : storage.entries()) {
            const Value fqn = index.attribute_at("fqn");
            in_context([&] { return fmt::format("tensor '{}'", fqn.as_string()); },
                       [&, i = index, s = info] { read_entry(item_of(fqn), i.attribute("offset"), s); });
        }
    }

    struct Item {
        bool is_object = false;
        std::uint32_t index = 0;
    };

    /// The item that `fqn` names. Chunks of one tensor usually follow each other and share the string.
    Item item_of(Value fqn) {
        if (fqn == last_fqn_) return last_item_;
        const auto found = names_.find(fqn.as_string());
        if (found == names_.end()) throw failure("has data but is not in the state dict");
        last_fqn_ = fqn;
        return last_item_ = found->second;
    }

    void read_entry(Item item, std::optional<Value> offset, Value info) {
        const auto transforms = info.attribute("transform_descriptors");
        if (transforms && !transforms->is_none() && !transforms->items().empty())
            throw failure("data is transformed ({}), which tpx cannot read", transforms->items()[0].describe());
        const Extent extent = extent_of(info);
        if (!item.is_object) {
            if (!offset || offset->is_none()) throw failure("has data without a chunk");
            return place(item.index, shape_of(*offset), extent);
        }
        Object& object = catalogue_.objects[item.index];
        if (object.file != nowhere) throw failure("is stored twice");
        object.file = extent.file;
        object.offset = extent.offset;
        object.length = extent.length;
    }

    struct Extent {
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
    };

    Extent extent_of(Value info) {
        const std::int64_t offset = info.attribute_at("offset").as_int();
        const std::int64_t length = info.attribute_at("length").as_int();
        if (offset < 0 || length < 0) throw failure("{} bytes at offset {}", length, offset);
        return {file_of(info.attribute_at("relative_path").as_string()), std::uint64_t(offset), std::uint64_t(length)};
    }

    std::uint32_t file_of(std::string_view path) {
        const auto known = files_.find(path);
        if (known != files_.end()) return known->second;
        check_inside(path);
        catalogue_.files.push_back({path, 0});
        ranks_.push_back(rank_of_file(path));
        return files_[path] = std::uint32_t(catalogue_.files.size() - 1);
    }

    /// Records that `extent` stores the chunk of `tensor` that begins at `begin`.
    void place(std::uint32_t tensor, const Shape& begin, const Extent& extent) {
        const int axes = catalogue_.tensors[tensor].shape.size();
        if (begin.size() != axes) throw failure("data at {} of a tensor of {} axes", to_string(begin), axes);
        Box corner;
        for (Index at : begin) corner.push_back({at, at});
        const auto first = catalogue_.pieces.begin() + starts_[tensor];
        const auto last = catalogue_.pieces.begin() + starts_[tensor + 1];
        const auto begins_there = [&](auto piece) { return compare((*piece).box, corner) == 0; };
        // Chunks are usually stored in order. If several chunks begin here, `piece` must be the first of them.
        auto piece = catalogue_.pieces.begin() + next_;
        if (piece < first || piece >= last || !begins_there(piece) || (piece > first && begins_there(piece - 1)))
            piece = std::lower_bound(first, last, corner,
                                     [](const Piece& a, const Box& b) { return compare(a.box, b) < 0; });
        if (piece == last || compare(piece->box, corner) != 0) {
            if (without_elements_.contains({tensor, begin})) return;
            throw failure("has data at {}, where no chunk begins", to_string(begin));
        }
        if (piece->file != nowhere) throw failure("box {} is stored twice", to_string(piece->box));
        if (extent.length == 0) throw failure("box {} is stored in 0 bytes", to_string(piece->box));
        piece->file = extent.file;
        piece->offset = extent.offset;
        piece->rank = ranks_[extent.file];
        next_ = piece - catalogue_.pieces.begin();
        checkpoint_.archives[std::size_t(next_++)] = extent.length;
    }

    /// Compares where two boxes begin.
    static std::strong_ordering compare(const Box& a, const Box& b) {
        for (int axis = 0; axis < a.size(); ++axis)
            if (a[axis].begin != b[axis].begin) return a[axis].begin <=> b[axis].begin;
        return std::strong_ordering::equal;
    }

    void check_stored() const {
        for (const Piece& piece : catalogue_.pieces)
            if (piece.file == nowhere)
                throw failure("tensor '{}': nothing is stored for box {}", catalogue_.tensors[piece.tensor].name,
                              to_string(piece.box));
        for (const Object& object : catalogue_.objects)
            if (object.file == nowhere) throw failure("object '{}': nothing is stored for it", object.name);
    }

    /// Sorts the pieces in the catalogue's order, which compares the end of an axis before the begin of the next axis.
    void order_pieces() {
        auto& pieces = catalogue_.pieces;
        const auto in_order = [](const Piece& a, const Piece& b) {
            return std::tie(a.tensor, a.box) < std::tie(b.tensor, b.box);
        };
        if (std::is_sorted(pieces.begin(), pieces.end(), in_order)) return;
        std::vector<std::uint32_t> order(pieces.size());
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return in_order(pieces[a], pieces[b]); });
        std::vector<Piece> sorted;
        std::vector<std::uint64_t> archives;
        for (std::uint32_t i : order) {
            sorted.push_back(pieces[i]);
            archives.push_back(checkpoint_.archives[i]);
        }
        pieces = std::move(sorted);
        checkpoint_.archives = std::move(archives);
    }

    Checkpoint& checkpoint_;
    Catalogue& catalogue_;
    std::size_t most_pieces_ = 0;                       // entries of storage_data; each piece needs its own
    std::unordered_map<std::string_view, Item> names_;  // keys point into the document
    std::ptrdiff_t next_ = 0;                           // the piece after the one that was placed last
    Value last_fqn_;
    Item last_item_;
    std::unordered_map<std::string_view, std::uint32_t> files_;   // keys point into the document, too
    std::vector<std::int32_t> ranks_;                             // of files
    std::vector<std::uint32_t> starts_;                           // index of each tensor's first piece
    std::set<std::pair<std::uint32_t, Shape>> without_elements_;  // where empty chunks begin
};

}  // namespace

std::int32_t rank_of_file(std::string_view path) {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    std::int32_t rank = -1;
    if (!name.starts_with("__")) return -1;
    const auto [end, error] = std::from_chars(name.data() + 2, name.data() + name.size(), rank);
    return error == std::errc{} && end != name.data() + name.size() && *end == '_' ? rank : -1;
}

void read_metadata(const std::filesystem::path& directory, Checkpoint& checkpoint) {
    const std::filesystem::path path = directory / ".metadata";
    std::string bytes = read_file(path);
    if (bytes.empty()) throw failure("{}: the file is empty", path.string());
    in_context([&] { return path.string(); },
               [&] {
                   const torch::Document document = torch::read_pickle(bytes).document;
                   std::string{}.swap(bytes);
                   Reader{checkpoint}.read(document.root());
                   const auto planner_data = document.root().attribute("planner_data");
                   if (!planner_data || planner_data->is_none()) return;
                   if (!planner_data->is(torch::Kind::dict))
                       throw failure("planner_data is {} instead of a dict", planner_data->describe());
                   checkpoint.planner_data = keep_copy_alive(*planner_data);
               });
}

}  // namespace tpx::formats
