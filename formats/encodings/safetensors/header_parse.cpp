// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/header.hpp"
#include "formats/encodings/safetensors/strict_sax.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace tpx::formats::safetensors {
namespace {

class HeaderSax final : public StrictSax {
public:
    Header take() { return std::move(header_); }

    /// "tensor 'NAME'" or "__metadata__": what was being read; empty outside of them.
    std::string where() const {
        switch (at_) {
            case At::start:
            case At::tensors:
                return {};
            case At::metadata:
                return "__metadata__";
            default:
                return fmt::format("tensor '{}'", entry_.name);
        }
    }

private:
    enum class At { start, tensors, metadata, tensor, shape, offsets };
    enum Field : unsigned { no_field = 0, dtype = 1, shape = 2, offsets = 4, all_fields = 7 };

    void object() override {
        if (at_ == At::start)
            at_ = At::tensors;
        else if (at_ == At::tensors && key_ == "__metadata__")
            at_ = At::metadata;
        else if (at_ == At::tensors)
            begin_entry();
        else
            StrictSax::object();
    }

    void begin_entry() {
        entry_ = {.name = std::move(key_), .shape = {}};
        field_ = no_field;
        seen_ = 0;
        offset_count_ = 0;
        at_ = At::tensor;
    }

    void object_end() override {
        if (at_ == At::tensor) {
            if (seen_ != all_fields) throw failure("needs dtype, shape and data_offsets");
            header_.entries.push_back(std::move(entry_));
        }
        at_ = At::tensors;
    }

    void member(std::string& name) override {
        if (at_ == At::metadata)
            key_ = name;
        else if (at_ == At::tensor)
            begin_field(name);
        else
            begin_member(name);
    }

    void begin_member(std::string& name) {
        if (name == "__metadata__" && std::exchange(metadata_seen_, true)) throw failure("__metadata__ appears twice");
        key_ = std::move(name);
    }

    void begin_field(std::string_view name) {
        field_ = name == "dtype" ? dtype : name == "shape" ? shape : name == "data_offsets" ? offsets : no_field;
        if (field_ == no_field) return skip_value();
        if (seen_ & field_) throw failure("{} appears twice", name);
        seen_ |= field_;
    }

    void text(std::string& value) override {
        if (at_ == At::metadata) {
            header_.metadata.emplace_back(std::move(key_), value);
        } else if (at_ == At::tensor && field_ == dtype) {
            const auto known = dtype_by_safetensors(value);
            if (!known) throw failure("unknown dtype '{}'", value);
            entry_.dtype = *known;
        } else {
            StrictSax::text(value);
        }
    }

    void array() override {
        if (at_ == At::tensor && field_ == shape)
            at_ = At::shape;
        else if (at_ == At::tensor && field_ == offsets)
            at_ = At::offsets;
        else
            StrictSax::array();
    }

    void array_end() override {
        if (at_ == At::offsets && offset_count_ != 2)
            throw failure("data_offsets has {} values, needs 2", offset_count_);
        at_ = At::tensor;
    }

    void number(std::uint64_t value) override {
        if (at_ == At::shape) {
            if (value > std::numeric_limits<Index>::max()) throw failure("dimension {} is too large", value);
            if (entry_.shape.size() == max_rank) throw failure("more than {} dimensions", max_rank);
            entry_.shape.push_back(static_cast<Index>(value));
        } else if (at_ == At::offsets) {
            if (offset_count_ < 2) (offset_count_ == 0 ? entry_.begin : entry_.end) = value;
            ++offset_count_;
        } else {
            StrictSax::number(value);
        }
    }

    Header header_;
    Entry entry_;
    std::string key_;
    At at_ = At::start;
    Field field_ = no_field;
    unsigned seen_ = 0;
    std::size_t offset_count_ = 0;
    bool metadata_seen_ = false;
};

void check_names_differ(const std::vector<Entry>& entries) {
    std::unordered_set<std::string_view> names(entries.size() * 2);
    for (const Entry& entry : entries) {
        if (!names.insert(entry.name).second) throw failure("tensor '{}': appears twice", entry.name);
    }
}

void check_entry(const Entry& entry, std::uint64_t expected) {
    if (entry.end < entry.begin) throw failure("data_offsets [{}, {}] end before they begin", entry.begin, entry.end);
    if (entry.begin != expected)
        throw failure("starts at byte {} of the buffer instead of {}: {}", entry.begin, expected,
                      entry.begin < expected ? "it overlaps the one before" : "bytes before it belong to no tensor");
    const std::uint64_t size = payload_size(entry.dtype, entry.shape);
    if (entry.end - entry.begin != size)
        throw failure("{} {} has {} bytes, data_offsets span {}", name(entry.dtype), to_string(entry.shape), size,
                      entry.end - entry.begin);
}

/// Throws Error unless the entries, which are in buffer order, tile the buffer.
void check_tiling(const std::vector<Entry>& entries, std::uint64_t buffer_size) {
    std::uint64_t expected = 0;
    for (const Entry& entry : entries) {
        in_context([&] { return fmt::format("tensor '{}'", entry.name); }, [&] { check_entry(entry, expected); });
        expected = entry.end;
    }
    if (expected == buffer_size) return;
    const char* cause = expected > buffer_size ? "the file is truncated" : "bytes after the last tensor";
    const std::string last = entries.empty() ? "no tensor" : fmt::format("tensor '{}'", entries.back().name);
    throw failure("{}: the tensors end at byte {} of the buffer, which has {}: {}", last, expected, buffer_size, cause);
}

std::uint64_t little_endian(std::span<const unsigned char, 8> bytes) {
    std::uint64_t value = 0;
    for (int k = 7; k >= 0; --k) value = value << 8 | bytes[k];
    return value;
}

}  // namespace

std::uint64_t payload_size(DType dtype, const Shape& shape) {
    const Index elements = checked_volume(shape);
    std::uint64_t bits = 0;
    if (elements < 0 || __builtin_mul_overflow(static_cast<std::uint64_t>(elements), info(dtype).bits, &bits))
        throw failure("{} {} is too large for any file", name(dtype), to_string(shape));
    if (bits % 8 != 0)
        throw failure("{} {} has {} bits, not a whole number of bytes", name(dtype), to_string(shape), bits);
    return bits / 8;
}

Header parse_header(std::string_view json, std::uint64_t buffer_size) {
    if (!json.starts_with('{')) throw failure("the header does not start with '{{'");
    HeaderSax sax;
    try {
        sax.parse(json);
    } catch (Error& error) {
        if (const std::string where = sax.where(); !where.empty()) error.prepend(where);
        throw;
    }
    Header header = sax.take();
    const auto place = [](const Entry& entry) { return std::pair{entry.begin, entry.end}; };
    if (!std::ranges::is_sorted(header.entries, {}, place)) std::ranges::stable_sort(header.entries, {}, place);
    check_names_differ(header.entries);
    check_tiling(header.entries, buffer_size);
    return header;
}

Header read_header(const std::filesystem::path& path) {
    const std::uint64_t size = size_of_file(path);
    if (size < 8) throw failure("{}: {} bytes are too few for a safetensors file", path.string(), size);
    const Fd fd = open_file(path, O_RDONLY);
    std::array<unsigned char, 8> prefix{};
    read_at(fd, 0, std::as_writable_bytes(std::span{prefix}), path);
    const std::uint64_t length = little_endian(prefix);
    if (std::ranges::equal(prefix, std::string_view{"version "}))
        throw failure("{}: is a Git LFS pointer, not the file itself; 'git lfs pull' downloads the file",
                      path.string());
    if (length > max_header_bytes)
        throw failure("{}: a header of {} bytes, at most {} are allowed", path.string(), length, max_header_bytes);
    if (length > size - 8)
        throw failure("{}: a header of {} bytes in a file of {}: the file is truncated", path.string(), length, size);
    std::string json(length, '\0');
    read_at(fd, 8, std::as_writable_bytes(std::span{json}), path);
    Header header = in_context([&] { return path.string(); }, [&] { return parse_header(json, size - 8 - length); });
    header.buffer = 8 + length;
    header.file_size = size;
    return header;
}

}  // namespace tpx::formats::safetensors
