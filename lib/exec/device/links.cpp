// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/links.hpp"

#include "lib/core/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tpx {
namespace {

constexpr int ranks_of_kind = 64;  // that distance() tells apart

}  // namespace

std::string to_text(const GpuLinks& links) {
    std::string text = fmt::format("{}", links.size());
    for (const std::vector<MemoryLink>& row : links)
        for (const MemoryLink& link : row) text += fmt::format(" {} {}", static_cast<int>(link.kind), link.rank);
    return text;
}

GpuLinks parse_gpu_links(const std::string& text) {
    std::istringstream words{text};
    std::size_t count = 0;
    words >> count;
    GpuLinks links(count, std::vector<MemoryLink>(count));
    for (std::vector<MemoryLink>& row : links)
        for (MemoryLink& link : row) {
            int kind = 0;
            words >> kind >> link.rank;
            link.kind = static_cast<LinkClass>(kind);
        }
    return links;
}

MemoryLink link_between(const Endpoint& from, const Endpoint& to, const GpuLinks& links) {
    const bool on_gpus = from.gpu >= 0 && to.gpu >= 0;
    if (from.host != to.host) return {on_gpus && from.gpu == to.gpu ? LinkClass::rail : LinkClass::network, 0};
    if (!on_gpus) return {LinkClass::host_memory, from.gpu < 0 && to.gpu < 0 ? 0 : 1};
    if (from.gpu == to.gpu) return {LinkClass::same_gpu, 0};
    const auto source = static_cast<std::size_t>(from.gpu), target = static_cast<std::size_t>(to.gpu);
    return std::max(source, target) < links.size() ? links[source][target] : MemoryLink{LinkClass::pcie, 0};
}

int distance(const MemoryLink& link) {
    return static_cast<int>(link.kind) * ranks_of_kind + std::clamp(link.rank, 0, ranks_of_kind - 1);
}

LinkBytes& LinkBytes::operator+=(const LinkBytes& other) {
    for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] += other.bytes[k];
    return *this;
}

std::string to_text(const LinkBytes& links) {
    std::string text;
    for (std::size_t k = 0; k < links.bytes.size(); ++k)
        if (links.bytes[k] > 0)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_size(links.bytes[k]), link_class_names[k]);
    return text;
}

}  // namespace tpx
