// SPDX-License-Identifier: Apache-2.0
#include "formats/files/store/manifest.hpp"

#include "formats/files/store/sealed_json.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view manifest_schema = "tpx.manifest/1";

std::uint64_t hexadecimal(const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (code != std::errc{} || end != text.data() + text.size()) throw failure("'{}' is not a checksum", text);
    return value;
}

std::uint64_t crc_of_range(const Fd& fd, Interval range, const fs::path& file,
                           const std::function<void(std::uint64_t)>& on_read) {
    constexpr Index step = Index{1} << 20;
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(step, range.size())));
    std::uint64_t crc = 0;
    for (Index at = range.begin; at < range.end; at += step) {
        const auto bytes = std::span{buffer}.first(static_cast<std::size_t>(std::min(step, range.end - at)));
        read_at(fd, static_cast<std::uint64_t>(at), bytes, file);
        crc = Crc64::shift(crc, bytes.size()) ^ Crc64::of(bytes);
        if (on_read) on_read(bytes.size());
    }
    return crc;
}

/// Throws Error unless a listed file is inside the state, and its indices are those of listed hosts and tensors.
void check_file(const Manifest& manifest, const ManifestFile& file) {
    const fs::path plain = file.path.lexically_normal();
    if (plain.empty() || plain.is_absolute() || *plain.begin() == "..")
        throw failure("'{}' is not a path inside the state", file.path.string());
    const auto below = [](std::size_t count) { return [count](std::uint32_t index) { return index < count; }; };
    if (!std::ranges::all_of(file.hosts, below(manifest.hosts.size())) ||
        !std::ranges::all_of(file.tensors, below(manifest.tensors.size())))
        throw failure("'{}' has a host or tensor that is not listed", file.path.string());
}

ManifestHost host_from_json(const Json& json) {
    ManifestHost host{json.at("name"), json.at("ranks").get<std::vector<int>>(), {}};
    if (json.contains("devices")) host.devices = json["devices"].get<std::vector<int>>();
    if (!host.devices.empty() && host.devices.size() != host.ranks.size())
        throw failure("host '{}' has {} ranks, but {} devices", host.name, host.ranks.size(), host.devices.size());
    return host;
}

Manifest from_json(const Json& json) {
    Manifest manifest{.job = json.at("job"),
                      .iteration = json.at("iteration"),
                      .epoch = json.at("epoch"),
                      .change = json.at("change"),
                      .request = json.at("request"),
                      .model = json.at("model"),
                      .plan = json.at("plan"),
                      .layout = json.at("layout"),
                      .format = json.at("format"),
                      .replicas = json.at("replicas"),
                      .requested_replicas = json.value("requested_replicas", 0),
                      .tensors = json.at("tensors").get<std::vector<std::string>>()};
    for (const Json& host : json.at("hosts")) manifest.hosts.push_back(host_from_json(host));
    for (const Json& file : json.at("files")) {
        manifest.files.push_back({file.at("path").get<std::string>(), file.at("size"), hexadecimal(file.at("crc")),
                                  file.at("hosts").get<std::vector<std::uint32_t>>(),
                                  file.at("tensors").get<std::vector<std::uint32_t>>()});
        check_file(manifest, manifest.files.back());
    }
    return manifest;
}

}  // namespace

std::string state_name(const Manifest& manifest) {
    return fmt::format("{}-{}-{}", manifest.job, manifest.iteration, manifest.epoch);
}

std::string to_text(const Manifest& manifest) {
    Json json{{"job", manifest.job},           {"iteration", manifest.iteration}, {"epoch", manifest.epoch},
              {"change", manifest.change},     {"request", manifest.request},     {"model", manifest.model},
              {"plan", manifest.plan},         {"layout", manifest.layout},       {"format", manifest.format},
              {"replicas", manifest.replicas}, {"hosts", Json::array()},          {"tensors", manifest.tensors},
              {"files", Json::array()}};
    if (manifest.requested_replicas > 0) json["requested_replicas"] = manifest.requested_replicas;
    for (const ManifestHost& host : manifest.hosts) {
        json["hosts"].push_back({{"name", host.name}, {"ranks", host.ranks}});
        if (!host.devices.empty()) json["hosts"].back()["devices"] = host.devices;
    }
    for (const ManifestFile& file : manifest.files)
        json["files"].push_back({{"path", file.path.string()},
                                 {"size", file.size},
                                 {"crc", fmt::format("{:016x}", file.crc)},
                                 {"hosts", file.hosts},
                                 {"tensors", file.tensors}});
    return sealed(manifest_schema, json);
}

Manifest parse_manifest(const std::string& text, const fs::path& file) {
    const Json json = unsealed(manifest_schema, text, file);
    return in_context([&] { return file.string(); },
                      [&] {
                          try {
                              return from_json(json);
                          } catch (const Json::exception&) {
                              throw failure("is damaged: an entry is missing or has another type");
                          }
                      });
}

void require_size(const fs::path& file, std::uint64_t size) {
    if (const std::uint64_t found = size_of_file(file); found != size)
        throw failure("{}: has {} bytes, but its manifest records {}", file.string(), found, size);
}

std::uint64_t crc_of_file(const fs::path& file, std::uint64_t size, const std::function<void(std::uint64_t)>& on_read) {
    require_size(file, size);
    return crc_of_range(open_file(file, O_RDONLY), {0, static_cast<Index>(size)}, file, on_read);
}

std::uint64_t crc_of_file(const fs::path& file, std::uint64_t size, std::span<const Interval> known,
                          std::uint64_t crc) {
    require_size(file, size);
    const Fd fd = open_file(file, O_RDONLY);
    const auto end = static_cast<Index>(size);
    Index at = 0;
    const auto add_up_to = [&](Index next) {
        if (next > at)
            crc ^= Crc64::shift(crc_of_range(fd, {at, next}, file, {}), size - static_cast<std::uint64_t>(next));
    };
    for (const Interval range : known) {
        add_up_to(range.begin);
        at = range.end;
    }
    add_up_to(end);
    return crc;
}

}  // namespace tpx::formats
