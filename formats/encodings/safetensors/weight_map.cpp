// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/weight_map.hpp"

#include "formats/encodings/safetensors/strict_sax.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace tpx::formats::safetensors {
namespace {

/// `text` as a normalized relative path. Throws Error if the path leads out of the checkpoint's directory.
std::filesystem::path path_inside(const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
    if (text.find('\0') != text.npos || path.is_absolute() || !path.has_filename() || path == "." ||
        *path.begin() == "..")
        throw failure("'{}' is not a file inside the checkpoint's directory", text);
    return path;
}

class IndexSax final : public StrictSax {
public:
    std::map<std::filesystem::path, std::vector<std::string>> tensors;  ///< of each file
    std::optional<std::uint64_t> total_size;
    bool map_seen = false;

private:
    enum class At { start, top, metadata, weight_map };

    void object() override {
        if (at_ != At::start && at_ != At::top) return StrictSax::other("an object");
        at_ = at_ == At::start ? At::top : key_ == "weight_map" ? At::weight_map : At::metadata;
    }
    void object_end() override { at_ = At::top; }

    void member(std::string& name) override {
        if (at_ == At::top && name == "weight_map" && std::exchange(map_seen, true))
            throw failure("weight_map appears twice");
        const bool wanted = at_ == At::top        ? name == "weight_map" || name == "metadata"
                            : at_ == At::metadata ? name == "total_size"
                                                  : true;
        if (!wanted) return skip_value();
        key_ = std::move(name);
    }

    void text(std::string& value) override {
        if (at_ != At::weight_map) return other("a string");
        in_context([&] { return fmt::format("tensor '{}'", key_); },
                   [&] {
                       if (!names_ || value != file_) {  // usually all tensors of a file are listed together
                           names_ = &tensors[path_inside(value)];
                           file_ = value;
                       }
                       names_->push_back(std::move(key_));
                   });
    }

    void number(std::uint64_t value) override {
        if (at_ == At::weight_map) return other("a number");
        if (at_ == At::metadata) total_size = value;
    }

    // Some writers store total_size as a fraction or metadata as null; neither is needed.
    void other(std::string_view what) override {
        if (at_ == At::weight_map || at_ == At::start || key_ == "weight_map") StrictSax::other(what);
    }

    At at_ = At::start;
    std::string key_;
    std::string file_;  // of the previous tensor
    std::vector<std::string>* names_ = nullptr;
};

class OffsetsSax final : public StrictSax {
public:
    SavedOffsets offsets;

private:
    enum class At { start, tensors, tensor, values };

    void object() override {
        if (at_ != At::start && at_ != At::tensors) return StrictSax::object();
        at_ = at_ == At::start ? At::tensors : At::tensor;
        seen_ = false;
        current_ = {};
    }
    void object_end() override {
        if (at_ == At::tensor) {
            if (!seen_) throw failure("tensor '{}': no saved_offsets", name_);
            if (!offsets.emplace(name_, current_).second) throw failure("tensor '{}': appears twice", name_);
        }
        at_ = At::tensors;
    }
    void member(std::string& name) override {
        if (at_ == At::tensors)
            name_ = std::move(name);
        else if (name != "saved_offsets")
            skip_value();
        else if (std::exchange(seen_, true))
            throw failure("tensor '{}': saved_offsets appears twice", name_);
    }
    void array() override {
        if (at_ != At::tensor) return StrictSax::array();
        at_ = At::values;
    }
    void array_end() override { at_ = At::tensor; }
    void number(std::uint64_t value) override {
        if (at_ != At::values) return StrictSax::number(value);
        if (value > std::numeric_limits<Index>::max())
            throw failure("tensor '{}': offset {} is too large", name_, value);
        if (current_.size() == max_rank) throw failure("tensor '{}': more than {} dimensions", name_, max_rank);
        current_.push_back(static_cast<Index>(value));
    }

    At at_ = At::start;
    std::string name_;
    Tuple<Index> current_;
    bool seen_ = false;
};

WeightMap parse_index(std::string_view json) {
    IndexSax sax;
    sax.parse(json);
    if (!sax.map_seen) throw failure("no weight_map");
    if (sax.tensors.empty()) throw failure("weight_map lists no tensor");
    WeightMap map;
    map.total_size = sax.total_size;
    for (auto& [path, names] : sax.tensors) {
        const auto file = static_cast<std::uint32_t>(map.files.size());
        map.files.push_back(path);
        for (std::string& name : names) map.entries.push_back({std::move(name), file});
    }
    return map;
}

}  // namespace

WeightMap read_index(const std::filesystem::path& path) {
    const std::string json = read_file(path);
    return in_context([&] { return path.string(); }, [&] { return parse_index(json); });
}

SavedOffsets parse_sharding_info(std::string_view json) {
    return in_context([] { return "DCP_SHARDING_INFO"; },
                      [&] {
                          OffsetsSax sax;
                          sax.parse(json);
                          return std::move(sax.offsets);
                      });
}

}  // namespace tpx::formats::safetensors
