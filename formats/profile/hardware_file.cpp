// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/hardware_file.hpp"

#include "lib/core/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace tpx::formats {
namespace {

// A host's name comes from the system: a TOML string that reads as it.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return out + "\"";
}

std::string rate_line(std::string_view key, const MeasuredRate& rate) {
    if (rate.rate <= 0) return "";
    return fmt::format("{} = {:.0f}  # {}, spread {:.1f} %\n", key, rate.rate, format_rate(rate.rate),
                       100 * rate.spread);
}

template <class Row, class Value>
std::string matrix(std::string_view key, const std::vector<Row>& rows, Value&& value) {
    std::string text = fmt::format("{} = [\n", key);
    for (const Row& row : rows) {
        std::vector<std::string> cells;
        for (const auto& cell : row) cells.push_back(value(cell));
        text += fmt::format("  [{}],\n", fmt::join(cells, ", "));
    }
    return text + "]\n";
}

}  // namespace

std::string hardware_text(const Hardware& hardware) {
    std::string text = "# tpx-hardware(5): written by tpx profile hardware; rates in bytes per second\n";
    for (const HostHardware& host : hardware.hosts) {
        text += fmt::format("\n[[hosts]]\nname = {}\ngpus = {}\n", quoted(host.name), host.gpus);
        text += rate_line("nic", host.nic) + rate_line("disk_read", host.disk_read) +
                rate_line("disk_write", host.disk_write) + rate_line("memory", host.memory);
    }
    text += "\n[measured]\n";
    const auto shared = [&](std::string_view key, MeasuredRate HostHardware::*rate) {
        std::vector<std::string> cells;
        for (const HostHardware& host : hardware.hosts) cells.push_back(fmt::format("{:.0f}", (host.*rate).rate));
        text += fmt::format("{} = [{}]  # while all hosts do\n", key, fmt::join(cells, ", "));
    };
    shared("disk_read_together", &HostHardware::shared_read);
    shared("disk_write_together", &HostHardware::shared_write);
    if (hardware.hosts.size() > 1) {
        text += "# from the host of the row to that of the column\n";
        text +=
            matrix("links", hardware.links, [](const MeasuredRate& link) { return fmt::format("{:.0f}", link.rate); });
        text += matrix("latency", hardware.latency, [](double seconds) { return fmt::format("{:.3g}", seconds); });
    }
    return text;
}

}  // namespace tpx::formats
