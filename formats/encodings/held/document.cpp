// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/held/document.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/layout.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>
#include <utility>

namespace tpx::formats::held {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* host_memory = "host";
constexpr const char* gpu_memory = "cuda";

const Json& at(const Json& object, const char* key) {
    if (!object.is_object() || !object.contains(key)) throw failure("'{}' is missing", key);
    return object[key];
}

std::uint64_t number(const Json& object, const char* key) {
    const Json& value = at(object, key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
        throw failure("'{}' is not a whole number", key);
    return value.get<std::uint64_t>();
}

int small_number(const Json& object, const char* key) {
    constexpr std::uint64_t most = 1u << 30;
    const std::uint64_t value = number(object, key);
    if (value > most) throw failure("'{}' is {}, at most {} is allowed", key, value, most);
    return static_cast<int>(value);
}

std::string text(const Json& object, const char* key) {
    const Json& value = at(object, key);
    if (!value.is_string()) throw failure("'{}' is not a string", key);
    return value.get<std::string>();
}

const Json& list(const Json& object, const char* key) {
    const Json& value = at(object, key);
    if (!value.is_array()) throw failure("'{}' is not a list", key);
    return value;
}

bool has(const Json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

Tuple<Index> indices(const Json& object, const char* key) {
    const Json& values = list(object, key);
    if (values.size() > max_rank)
        throw failure("'{}' has {} axes, at most {} are allowed", key, values.size(), max_rank);
    Tuple<Index> numbers;
    for (const Json& value : values) {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<Index>::max())
            throw failure("'{}' must contain only whole numbers", key);
        numbers.push_back(value.get<Index>());
    }
    return numbers;
}

/// The path of the value `name`; if the document omits the path, the name alone.
KeyPath path_of(const Json& object, const std::string& name) {
    if (!has(object, "path")) return {name};
    KeyPath path;
    for (const Json& key : list(object, "path")) {
        if (key.is_string())
            path.emplace_back(key.get<std::string>());
        else if (key.is_number_integer())
            path.emplace_back(key.get<std::int64_t>());
        else
            throw failure("'path' must contain only strings and whole numbers");
    }
    return path;
}

/// Throws Error unless `length` bytes at `offset` are inside a segment of `size` bytes.
void check_inside(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
    if (offset > size || length > size - offset)
        throw failure("ends at byte {} of a segment of {} bytes", offset + length, size);
}

HeldTensor read_tensor(const Json& object, std::uint64_t size) {
    HeldTensor tensor{.name = text(object, "name")};
    in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
               [&] {
                   const std::string dtype_name = text(object, "dtype");
                   const auto dtype = dtype_by_torch(dtype_name);
                   if (!dtype || itemsize(*dtype) == 0) throw failure("unknown dtype '{}'", dtype_name);
                   tensor.dtype = *dtype;
                   tensor.shape = indices(object, "shape");
                   const Tuple<Index> begin = indices(object, "begin"), lengths = indices(object, "sizes");
                   if (begin.size() != tensor.shape.size() || lengths.size() != begin.size())
                       throw failure("'shape', 'begin' and 'sizes' have different numbers of axes");
                   for (int k = 0; k < begin.size(); ++k) {
                       if (lengths[k] > tensor.shape[k] || begin[k] > tensor.shape[k] - lengths[k])
                           throw failure("the box exceeds the tensor's shape on axis {}", k);
                       tensor.box.push_back({begin[k], begin[k] + lengths[k]});
                   }
                   if (const Index elements = checked_volume(tensor.shape);
                       elements < 0 || elements > std::numeric_limits<Index>::max() / itemsize(*dtype))
                       throw failure("{} is too large", to_string(tensor.shape));
                   tensor.offset = number(object, "offset");
                   check_inside(tensor.offset, payload(tensor), size);
                   tensor.path = path_of(object, tensor.name);
               });
    return tensor;
}

HeldObject read_object(const Json& json, std::uint64_t size) {
    HeldObject object{.name = text(json, "name")};
    in_context([&] { return fmt::format("object '{}'", object.name); },
               [&] {
                   object.offset = number(json, "offset");
                   object.length = number(json, "length");
                   check_inside(object.offset, object.length, size);
                   object.path = path_of(json, object.name);
               });
    return object;
}

std::optional<GpuPlace> gpu_of(const Json& object) {
    if (!has(object, "gpu")) return std::nullopt;
    return GpuPlace{text(object["gpu"], "bus"), text(object["gpu"], "handle")};
}

void add_gpu(Json& json, const std::optional<GpuPlace>& gpu) {
    if (gpu) json["gpu"] = {{"bus", gpu->bus}, {"handle", gpu->handle}};
}

Json parse(std::string_view text) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) throw failure("not a JSON object");
    return json;
}

void check_layout(const Document& document) {
    if (document.layout.empty()) return;
    Layout layout;
    try {
        layout = parse_layout(document.layout);
    } catch (const Error& error) {  // its exit status would mean wrong usage
        throw failure("'layout': {}", error.what());
    }
    if (layout.ranks() != document.ranks)
        throw failure("'layout' {} has {} ranks, but 'ranks' is {}", document.layout, layout.ranks(), document.ranks);
}

void check_consistent(const Document& document) {
    if (document.rank >= document.ranks)
        throw failure("'rank' is {}, must be less than 'ranks' ({})", document.rank, document.ranks);
    check_layout(document);
    std::set<std::pair<std::string_view, Box>> boxes;
    for (const HeldTensor& tensor : document.tensors)
        if (!boxes.emplace(tensor.name, tensor.box).second)
            throw failure("tensor '{}' {}: appears twice", tensor.name, to_string(tensor.box));
    std::set<std::string_view> names;
    for (const HeldObject& object : document.objects)
        if (!names.insert(object.name).second) throw failure("object '{}': appears twice", object.name);
}

void add_path(Json& json, const std::string& name, const KeyPath& path) {
    if (path.empty() || path == KeyPath{name}) return;
    for (const auto& key : path) std::visit([&](const auto& value) { json["path"].push_back(value); }, key);
}

Json to_json(const HeldTensor& tensor) {
    Json json{{"name", tensor.name},    {"dtype", info(tensor.dtype).torch},
              {"shape", Json::array()}, {"begin", Json::array()},
              {"sizes", Json::array()}, {"offset", tensor.offset}};
    for (const Index size : tensor.shape) json["shape"].push_back(size);
    for (const Interval side : tensor.box) {
        json["begin"].push_back(side.begin);
        json["sizes"].push_back(side.end - side.begin);
    }
    add_path(json, tensor.name, tensor.path);
    return json;
}

}  // namespace

std::uint64_t payload(const HeldTensor& tensor) {
    return static_cast<std::uint64_t>(volume(tensor.box)) * static_cast<std::uint64_t>(itemsize(tensor.dtype));
}

Document parse_document(std::string_view json) {
    const Json root = parse(json);
    const std::string memory = text(root, "memory");
    if (memory != host_memory && memory != gpu_memory)
        throw failure("unknown memory kind '{}'; this version reads '{}' and '{}'", memory, host_memory, gpu_memory);
    Document document{.rank = small_number(root, "rank"), .ranks = small_number(root, "ranks")};
    if (has(root, "iteration")) document.iteration = static_cast<std::int64_t>(number(root, "iteration"));
    if (has(root, "job")) document.job = text(root, "job");
    if (has(root, "layout")) document.layout = text(root, "layout");
    document.size = number(root, "size");
    for (const Json& tensor : list(root, "tensors")) document.tensors.push_back(read_tensor(tensor, document.size));
    for (const Json& object : list(root, "objects")) document.objects.push_back(read_object(object, document.size));
    if (has(root, "crcs")) {
        document.crcs = number(root, "crcs");
        in_context([] { return "crcs"; },
                   [&] { check_inside(*document.crcs, 4 * document.tensors.size(), document.size); });
    }
    if (memory == gpu_memory) {
        at(root, "gpu");
        document.gpu = gpu_of(root);
    }
    check_consistent(document);
    return document;
}

std::string write_document(const Document& document) {
    Json json{{"memory", document.gpu ? gpu_memory : host_memory}, {"rank", document.rank}, {"ranks", document.ranks}};
    add_gpu(json, document.gpu);
    if (document.iteration) json["iteration"] = *document.iteration;
    if (!document.job.empty()) json["job"] = document.job;
    if (!document.layout.empty()) json["layout"] = document.layout;
    json["size"] = document.size;
    if (document.crcs) json["crcs"] = *document.crcs;
    json["tensors"] = Json::array();
    for (const HeldTensor& tensor : document.tensors) json["tensors"].push_back(to_json(tensor));
    json["objects"] = Json::array();
    for (const HeldObject& object : document.objects) {
        Json one{{"name", object.name}, {"offset", object.offset}, {"length", object.length}};
        add_path(one, object.name, object.path);
        json["objects"].push_back(std::move(one));
    }
    return json.dump();
}

namespace {

constexpr std::string_view host_prefix = "tpx-held.", host_ending = ".json";

}  // namespace

std::string manifest_of_host(std::string_view host) { return fmt::format("{}{}{}", host_prefix, host, host_ending); }

bool is_manifest_of_host(std::string_view file) { return file.starts_with(host_prefix) && file.ends_with(host_ending); }

Manifest parse_manifest(std::string_view json) {
    const Json root = parse(json);
    const auto plain_name = [](const Json& object, const char* key) {
        std::string name = text(object, key);
        if (name.empty() || name.find('/') != name.npos || name.starts_with('.'))
            throw failure("'{}' is not the name of a file", name);
        return name;
    };
    Manifest manifest;
    for (const Json& part : list(root, "parts"))
        manifest.parts.push_back({plain_name(part, "document"), plain_name(part, "segment"), gpu_of(part)});
    if (has(root, "config")) manifest.config = plain_name(root, "config");
    if (has(root, "save")) manifest.save = text(root, "save");
    return manifest;
}

std::string write_manifest(const Manifest& manifest) {
    Json json{{"tpx_held", 1}, {"parts", Json::array()}};
    for (const Manifest::Part& part : manifest.parts)
        add_gpu(json["parts"].emplace_back(Json{{"document", part.document}, {"segment", part.segment}}), part.gpu);
    if (!manifest.config.empty()) json["config"] = manifest.config;
    if (!manifest.save.empty()) json["save"] = manifest.save;
    return json.dump();
}

}  // namespace tpx::formats::held
