// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/header.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

namespace tpx::formats::gguf {
namespace {

constexpr std::array<BlockType, 34> types{
    {{0, "F32", 1, 4, DType::f32},  {1, "F16", 1, 2, DType::f16},    {2, "Q4_0", 32, 18, {}},
     {3, "Q4_1", 32, 20, {}},       {6, "Q5_0", 32, 22, {}},         {7, "Q5_1", 32, 24, {}},
     {8, "Q8_0", 32, 34, {}},       {9, "Q8_1", 32, 36, {}},         {10, "Q2_K", 256, 84, {}},
     {11, "Q3_K", 256, 110, {}},    {12, "Q4_K", 256, 144, {}},      {13, "Q5_K", 256, 176, {}},
     {14, "Q6_K", 256, 210, {}},    {15, "Q8_K", 256, 292, {}},      {16, "IQ2_XXS", 256, 66, {}},
     {17, "IQ2_XS", 256, 74, {}},   {18, "IQ3_XXS", 256, 98, {}},    {19, "IQ1_S", 256, 50, {}},
     {20, "IQ4_NL", 32, 18, {}},    {21, "IQ3_S", 256, 110, {}},     {22, "IQ2_S", 256, 82, {}},
     {23, "IQ4_XS", 256, 136, {}},  {24, "I8", 1, 1, DType::i8},     {25, "I16", 1, 2, DType::i16},
     {26, "I32", 1, 4, DType::i32}, {27, "I64", 1, 8, DType::i64},   {28, "F64", 1, 8, DType::f64},
     {29, "IQ1_M", 256, 56, {}},    {30, "BF16", 1, 2, DType::bf16}, {34, "TQ1_0", 256, 54, {}},
     {35, "TQ2_0", 256, 66, {}},    {39, "MXFP4", 32, 17, {}},       {40, "NVFP4", 64, 36, {}},
     {41, "Q1_0", 128, 18, {}}}};

/// The types of metadata values.
enum class Kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };

constexpr std::uint64_t default_alignment = 32;
constexpr int deepest_list = 8;

/// Reads a file sequentially through a buffer.
class Cursor {
public:
    explicit Cursor(const std::filesystem::path& path)
        : path_{path}, size_{size_of_file(path)}, fd_{open_file(path, O_RDONLY)} {}

    std::uint64_t size() const { return size_; }
    std::uint64_t position() const { return position_; }
    std::uint64_t left() const { return size_ - position_; }

    template <class T>
    T number() {
        T value{};
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string text() { return std::string{take(number<std::uint64_t>())}; }
    void skip(std::uint64_t bytes) {
        if (bytes > left()) too_short(bytes);
        position_ += bytes;
    }

private:
    std::string_view take(std::uint64_t bytes) {
        if (bytes > left()) too_short(bytes);
        if (position_ < begin_ || position_ + bytes > begin_ + buffer_.size()) {
            constexpr std::uint64_t usual = 1 << 16;
            begin_ = position_;
            buffer_.resize(std::min(left(), std::max(bytes, usual)));
            read_at(fd_, begin_, std::as_writable_bytes(std::span{buffer_}), path_);
        }
        const std::string_view taken = std::string_view{buffer_}.substr(position_ - begin_, bytes);
        position_ += bytes;
        return taken;
    }
    [[noreturn]] void too_short(std::uint64_t bytes) const {
        throw failure("ends at byte {}, but {} bytes were expected at byte {}", size_, bytes, position_);
    }

    std::filesystem::path path_;
    std::uint64_t size_;
    Fd fd_;
    std::uint64_t position_ = 0;
    std::uint64_t begin_ = 0;  // of the buffer
    std::string buffer_;
};

std::uint64_t size_of(Kind kind) {
    switch (kind) {
        case Kind::u8:
        case Kind::i8:
        case Kind::boolean:
            return 1;
        case Kind::u16:
        case Kind::i16:
            return 2;
        case Kind::u32:
        case Kind::i32:
        case Kind::f32:
            return 4;
        case Kind::u64:
        case Kind::i64:
        case Kind::f64:
            return 8;
        case Kind::text:
        case Kind::list:
            return 0;
    }
    throw failure("unknown metadata type {}", static_cast<std::uint32_t>(kind));
}

void skip_list(Cursor& cursor, int depth) {
    if (depth > deepest_list) throw failure("lists are more than {} deep", deepest_list);
    const auto kind = static_cast<Kind>(cursor.number<std::uint32_t>());
    const auto count = cursor.number<std::uint64_t>();
    const std::uint64_t item = size_of(kind);
    if (count > cursor.left() / std::max<std::uint64_t>(item, 8))
        if (item == 0 || count > cursor.left() / item) throw failure("a list of {} items is truncated", count);
    if (item > 0) return cursor.skip(count * item);
    for (std::uint64_t k = 0; k < count; ++k) {
        if (kind == Kind::text)
            cursor.skip(cursor.number<std::uint64_t>());
        else
            skip_list(cursor, depth + 1);
    }
}

/// Reads a scalar, or skips a list and returns nothing.
std::optional<Config::mapped_type> read_value(Cursor& cursor) {
    const auto kind = static_cast<Kind>(cursor.number<std::uint32_t>());
    switch (kind) {
        case Kind::u8:
            return std::int64_t{cursor.number<std::uint8_t>()};
        case Kind::i8:
            return std::int64_t{cursor.number<std::int8_t>()};
        case Kind::u16:
            return std::int64_t{cursor.number<std::uint16_t>()};
        case Kind::i16:
            return std::int64_t{cursor.number<std::int16_t>()};
        case Kind::u32:
            return std::int64_t{cursor.number<std::uint32_t>()};
        case Kind::i32:
            return std::int64_t{cursor.number<std::int32_t>()};
        case Kind::u64:
            return static_cast<std::int64_t>(cursor.number<std::uint64_t>());
        case Kind::i64:
            return cursor.number<std::int64_t>();
        case Kind::f32:
            return double{cursor.number<float>()};
        case Kind::f64:
            return cursor.number<double>();
        case Kind::boolean:
            return cursor.number<std::uint8_t>() != 0;
        case Kind::text:
            return cursor.text();
        case Kind::list:
            skip_list(cursor, 1);
            return std::nullopt;
    }
    throw failure("unknown metadata type {}", static_cast<std::uint32_t>(kind));
}

TensorInfo read_tensor(Cursor& cursor) {
    TensorInfo tensor{.name = cursor.text()};
    const auto axes = cursor.number<std::uint32_t>();
    if (axes > max_rank) throw failure("tensor '{}': has {} axes, more than {}", tensor.name, axes, max_rank);
    tensor.shape = Shape(static_cast<int>(axes));
    for (int k = static_cast<int>(axes); k-- > 0;) tensor.shape[k] = static_cast<Index>(cursor.number<std::uint64_t>());
    const auto number = cursor.number<std::uint32_t>();
    tensor.offset = cursor.number<std::uint64_t>();
    const auto* type = std::ranges::find(types, number, &BlockType::number);
    if (type == types.end()) throw failure("tensor '{}': unknown ggml type {}", tensor.name, number);
    tensor.type = type;
    const Index elements = checked_volume(tensor.shape);
    const Index row = axes == 0 ? 1 : tensor.shape[static_cast<int>(axes) - 1];
    if (elements < 0 || row % static_cast<Index>(type->elements) != 0 ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(elements) / type->elements, std::uint64_t{type->bytes},
                               &tensor.bytes))
        throw failure("tensor '{}': shape {} is invalid for {}", tensor.name, to_string(tensor.shape), type->name);
    return tensor;
}

std::uint64_t alignment_of(const Config& metadata) {
    const auto found = metadata.find("general.alignment");
    if (found == metadata.end()) return default_alignment;
    const auto* value = std::get_if<std::int64_t>(&found->second);
    if (value == nullptr || *value < 8 || *value > (1 << 30) ||
        !std::has_single_bit(static_cast<std::uint64_t>(*value)))
        throw failure("general.alignment is not a power of two of at least 8");
    return static_cast<std::uint64_t>(*value);
}

void check_places(std::vector<TensorInfo>& tensors, std::uint64_t data, std::uint64_t alignment, std::uint64_t size) {
    std::vector<const TensorInfo*> order;
    std::set<std::string_view> names;
    for (TensorInfo& tensor : tensors) {
        if (!names.insert(tensor.name).second) throw failure("tensor '{}': appears twice", tensor.name);
        const std::uint64_t room = size > data ? size - data : 0;
        if (tensor.offset % alignment != 0 || tensor.offset > room || tensor.bytes > room - tensor.offset)
            throw failure("tensor '{}': {} bytes at {} of the data exceed the file of {} bytes", tensor.name,
                          tensor.bytes, tensor.offset, size);
        tensor.offset += data;
        if (tensor.bytes > 0) order.push_back(&tensor);
    }
    std::ranges::sort(order, {}, &TensorInfo::offset);
    for (std::size_t k = 1; k < order.size(); ++k) {
        if (order[k - 1]->offset + order[k - 1]->bytes > order[k]->offset)
            throw failure("tensor '{}': shares bytes with '{}'", order[k]->name, order[k - 1]->name);
    }
}

Header read(Cursor& cursor) {
    constexpr std::uint64_t least_pair = 13, least_tensor = 24;  // bytes
    if (cursor.number<std::uint32_t>() != 0x46554747) throw failure("is not a GGUF file");
    const auto version = cursor.number<std::uint32_t>();
    if (version == std::uint32_t{3} << 24) throw failure("is big-endian GGUF, which tpx cannot read");
    if (version != 2 && version != 3) throw failure("is GGUF version {}; tpx reads versions 2 and 3", version);
    const auto tensors = cursor.number<std::uint64_t>();
    const auto pairs = cursor.number<std::uint64_t>();
    if (tensors > cursor.left() / least_tensor || pairs > cursor.left() / least_pair)
        throw failure("{} tensors and {} metadata pairs do not fit in {} bytes", tensors, pairs, cursor.size());
    Header header;
    for (std::uint64_t k = 0; k < pairs; ++k) {
        std::string key = cursor.text();
        const std::uint64_t begin = cursor.position();
        if (auto value = in_context([&] { return fmt::format("'{}'", key); }, [&] { return read_value(cursor); }))
            header.metadata[std::move(key)] = std::move(*value);
        else
            header.lists[std::move(key)] = {begin, cursor.position() - begin};
    }
    for (std::uint64_t k = 0; k < tensors; ++k) header.tensors.push_back(read_tensor(cursor));
    const std::uint64_t alignment = alignment_of(header.metadata);
    check_places(header.tensors, (cursor.position() + alignment - 1) / alignment * alignment, alignment, cursor.size());
    return header;
}

}  // namespace

TypeSize size_of_type(std::string_view name) {
    const auto* type = std::ranges::find(types, name, &BlockType::name);
    return {type->elements, type->bytes};
}

Header read_header(const std::filesystem::path& file) {
    return in_context([&] { return file.string(); },
                      [&] {
                          Cursor cursor{file};
                          return read(cursor);
                      });
}

}  // namespace tpx::formats::gguf
