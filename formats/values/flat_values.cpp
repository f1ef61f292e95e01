// SPDX-License-Identifier: Apache-2.0
#include "formats/values/flat_values.hpp"

#include "formats/encodings/torch/storage.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/state/value_text.hpp"
#include "lib/core/digest.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Entry;
using torch::Kind;
using torch::Value;

constexpr std::size_t most_values = 1'000'000;
constexpr std::size_t longest_text = 4096;
constexpr int deepest = 64;

std::string digest_of(std::string_view bytes) {
    Digest digest;
    const auto length = static_cast<Index>(bytes.size());
    add(digest, Shape{length}, 1, Box{{0, length}}, std::as_bytes(std::span{bytes}).data());
    return to_string(digest);
}

std::string joined(const std::string& path, std::string_view key) {
    return path.empty() ? std::string{key} : fmt::format("{}.{}", path, key);
}

/// The placeholder for the checkpoint's tensors.
constexpr torch::Global catalogued{"tpx", "tensor"};

bool is_catalogued(Value value) { return value.is(Kind::global) && value.as_global() == catalogued; }

/// The text of a value without parts; unset for others.
std::optional<std::string> leaf_text(Value value) {
    if (auto text = scalar_text(value)) return text;
    switch (value.kind()) {
        case Kind::big_integer:
            return value.as_bytes().size() > 512 ? bytes_text(value.as_bytes()) : big_integer_text(value.as_bytes());
        case Kind::bytes:
            return bytes_text(value.as_bytes());
        case Kind::global:
            return is_catalogued(value) ? std::nullopt : std::optional{global_text(value)};
        default:
            return std::nullopt;
    }
}

/// The text of a tensor in a document whose storages are in `contents`; unset for other values.
std::optional<std::string> tensor_text(Value value, const torch::Contents& contents) {
    if (!torch::Archive::is_tensor(value)) return std::nullopt;
    torch::Document document;
    torch::Contents copy;
    const auto found = torch::CarriedTensors{document, copy}.carry(contents, value);
    if (!found) return std::nullopt;
    const auto args = found->as_object().args.items();
    std::vector<std::int64_t> shape;
    for (const Value size : args[2].items()) shape.push_back(size.as_int());
    constexpr std::size_t dtype_of_v3 = 6;  // newer dtypes have no storage class of their own
    const std::string_view dtype = args.size() > dtype_of_v3 ? args[dtype_of_v3].as_global().name
                                                             : name(torch::distinct_storages(*found).at(0).dtype);
    return fmt::format("tensor {} [{}] {}", dtype, fmt::join(shape, ", "), digest_of(copy.begin()->second));
}

bool is_list(Value value) {
    return value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::size) || value.is(Kind::set) ||
           value.is(Kind::frozenset);
}

/// A list of values without parts, or of such lists, as one line; unset if an item has parts.
std::optional<std::string> list_text(Value value, int depth) {
    if (!is_list(value) || depth > 3) return std::nullopt;
    std::vector<std::string> texts;
    for (const Value item : value.items()) {
        auto text = leaf_text(item);
        if (!text) text = list_text(item, depth + 1);
        if (!text) return std::nullopt;
        texts.push_back(*std::move(text));
    }
    if (value.is(Kind::set) || value.is(Kind::frozenset)) std::ranges::sort(texts);
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

void FlatValues::text(const std::string& path, std::string text) {
    if (++count_ > most_values) throw failure("more than {} values", most_values);
    if (text.size() > longest_text) text = fmt::format("{}... {}", text.substr(0, 64), digest_of(text));
    add_(path, std::move(text));
}

void FlatValues::read(const std::string& path, Value value, const TensorBytes& tensors) {
    this->value(path, value, tensors, 0);
}

void FlatValues::dict(const std::string& path, std::span<const Entry> entries, const TensorBytes& tensors, int depth) {
    if (entries.empty() && !path.empty()) text(path, "{}");
    for (const Entry& entry : entries) value(joined(path, key_text(entry.key)), entry.value, tensors, depth + 1);
}

/// Visits dicts directly, so that skipped values are not copied; other values are copied as plain data.
void FlatValues::value(const std::string& path, Value value, const TensorBytes& tensors, int depth) {
    if (skip_(path)) return;
    if (value.is(Kind::dict) && depth < deepest) return dict(path, value.entries(), tensors, depth);
    torch::Document document;
    torch::Contents contents;
    torch::CarriedTensors carried{document, contents};
    torch::TreeCopy tree{document, false};
    const Value copy = tree.copy(value, [&](Value object) -> std::optional<Value> {
        const bool is_tensor = torch::Archive::is_tensor(object);
        if (is_tensor && tensors.catalogued) return document.global(catalogued.module, catalogued.name);
        if (tensors.storages != nullptr)
            if (auto own = carried.carry(*tensors.storages, object)) return own;
        return carried.carry(tensors.archive, object);
    });
    plain(path, copy, contents, depth);
}

void FlatValues::plain(const std::string& path, Value value, const torch::Contents& contents, int depth) {
    if (is_catalogued(value) || skip_(path)) return;
    if (depth > 2 * deepest) throw failure("'{:.80}': more than {} levels", path, 2 * deepest);
    if (auto found = leaf_text(value)) return text(path, *std::move(found));
    if (auto found = tensor_text(value, contents)) return text(path, *std::move(found));
    if (auto found = list_text(value, 0)) return text(path, *std::move(found));
    if (is_list(value)) {
        std::size_t number = 0;
        for (const Value item : value.items()) plain(fmt::format("{}.{}", path, number++), item, contents, depth + 1);
        return;
    }
    const auto entries = value.is(Kind::persistent) ? std::span<const Entry>{} : value.entries();
    if (entries.empty() && value.is(Kind::object))
        return text(path, fmt::format("{}{}", value.class_name(), list_text(value.as_object().args, 0).value_or("")));
    if (entries.empty()) return text(path, "{}");
    for (const Entry& entry : entries) plain(joined(path, key_text(entry.key)), entry.value, contents, depth + 1);
}

}  // namespace tpx::formats
