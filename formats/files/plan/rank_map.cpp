// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/rank_map.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace tpx::formats {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view blanks = " \t\r";
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    for (std::size_t at = line.find_first_not_of(blanks); at != line.npos; at = line.find_first_not_of(blanks, at)) {
        const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end;
    }
    return words;
}

std::optional<std::int32_t> number(std::string_view text) {
    std::int32_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

// The content of a line: ranks `first` to `last` are on `host` and, if `device` is set, on consecutive devices from it.
struct Entry {
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::string_view host;
    std::optional<std::int32_t> device;
};

class Map {
public:
    Map(std::string_view file, std::span<const Host> hosts, int ranks)
        : file_{file},
          hosts_{hosts},
          firsts_{first_devices(hosts)},
          seats_(static_cast<std::size_t>(ranks)),
          line_of_rank_(seats_.size(), 0),
          line_of_device_(static_cast<std::size_t>(firsts_.back()), 0) {
        for (std::int32_t h = 0; h < std::ssize(hosts); ++h) numbers_[hosts[h].name] = h;
    }

    void add_line(std::string_view text);
    std::vector<RankLocation> rank_locations() &&;

private:
    template <class... Args>
    Error toml_error(fmt::format_string<Args...> format, Args&&... args) const {
        Error error{Exit::usage, format, std::forward<Args>(args)...};
        error.prepend(fmt::format("{}:{}", file_, line_));
        return error;
    }
    Entry parse(std::span<const std::string_view> words) const;
    void put(std::int32_t rank, std::int32_t host, std::optional<std::int32_t> device);

    std::string_view file_;
    std::span<const Host> hosts_;
    std::vector<std::int32_t> firsts_;
    std::map<std::string_view, std::int32_t> numbers_;
    std::vector<RankLocation> seats_;
    std::vector<std::size_t> line_of_rank_;    // 0: not named yet
    std::vector<std::size_t> line_of_device_;  // 0: free
    std::int32_t next_ = 0;                    // the rank of a line that names only a host
    std::size_t line_ = 0;
};

// Parses "n0", "0-7 n0 [2]" or "rank 0=n0 slot=2"; ignores Open MPI's slots, which are cores.
Entry Map::parse(std::span<const std::string_view> words) const {
    if (words.size() == 1) return {next_, next_, words[0], std::nullopt};
    std::string_view ranks = words[0];
    std::string_view host = words[1];
    std::string_view device = words.size() > 2 ? words[2] : std::string_view{};
    if (ranks == "rank") {
        const std::size_t equals = words[1].find('=');
        if (equals == words[1].npos || !device.starts_with("slot="))
            throw toml_error("'rank N=HOST slot=S' was expected");
        ranks = words[1].substr(0, equals);
        host = words[1].substr(equals + 1);
        device = {};
    }
    const auto first = number(ranks.substr(0, ranks.find('-')));
    const auto last = ranks.find('-') == ranks.npos ? first : number(ranks.substr(ranks.find('-') + 1));
    const auto slot = device.empty() ? std::optional<std::int32_t>{} : number(device);
    if (!first || !last || *last < *first || (!device.empty() && !slot) || words.size() > 3)
        throw toml_error("'RANKS HOST [DEVICE]' was expected, such as '0-7 n0'");
    return {*first, *last, host, slot};
}

void Map::put(std::int32_t rank, std::int32_t host, std::optional<std::int32_t> device) {
    if (rank >= std::ssize(seats_))
        throw toml_error("rank {} is beyond the {} ranks of the old layout", rank, seats_.size());
    if (line_of_rank_[rank] > 0) throw toml_error("rank {} is already on line {}", rank, line_of_rank_[rank]);
    const auto taken = std::span{line_of_device_}.subspan(firsts_[host], hosts_[host].gpus);
    const std::int32_t slot =
        device ? *device : static_cast<std::int32_t>(std::ranges::find(taken, 0u) - taken.begin());
    if (slot >= hosts_[host].gpus)
        throw toml_error("rank {}: host '{}' has only {}", rank, hosts_[host].name,
                         counted(static_cast<std::uint64_t>(hosts_[host].gpus), "device"));
    if (taken[slot] > 0)
        throw toml_error("rank {}: device {} of '{}' is taken by line {}", rank, slot, hosts_[host].name, taken[slot]);
    taken[slot] = line_;
    line_of_rank_[rank] = line_;
    if (!hosts_[host].lost) seats_[rank] = {host, firsts_[host] + slot};
    next_ = rank + 1;
}

void Map::add_line(std::string_view text) {
    ++line_;
    const std::vector<std::string_view> words = words_of(text);
    if (words.empty()) return;
    const Entry entry = parse(words);
    const auto host = numbers_.find(entry.host);
    if (host == numbers_.end()) throw toml_error("host '{}' is not among the {} hosts", entry.host, hosts_.size());
    for (std::int32_t rank = entry.first; rank <= entry.last; ++rank) {
        const auto device = entry.device ? std::optional{*entry.device + rank - entry.first} : std::nullopt;
        put(rank, host->second, device);
    }
}

std::vector<RankLocation> Map::rank_locations() && {
    const auto missing = std::ranges::find(line_of_rank_, 0u);
    if (missing != line_of_rank_.end())
        throw Error{Exit::usage, "{}: has no line for rank {} of {}", file_, missing - line_of_rank_.begin(),
                    seats_.size()};
    return std::move(seats_);
}

}  // namespace

std::vector<RankLocation> parse_rank_map(std::string_view text, std::string_view file, std::span<const Host> hosts,
                                         int ranks) {
    Map map{file, hosts, ranks};
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        map.add_line(line);
    }
    return std::move(map).rank_locations();
}

std::vector<RankLocation> rank_locations_in_order(std::span<const Host> hosts, int ranks) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<RankLocation> rank_locations;
    for (std::int32_t h = 0; h < std::ssize(hosts); ++h) {
        if (hosts[h].spare) continue;
        for (int slot = 0; slot < hosts[h].gpus && std::ssize(rank_locations) < ranks; ++slot)
            rank_locations.push_back(hosts[h].lost ? RankLocation{} : RankLocation{h, firsts[h] + slot});
    }
    if (std::ssize(rank_locations) < ranks)
        throw Error{Exit::usage, "the {} ranks of the old layout do not fit on hosts with {} devices", ranks,
                    rank_locations.size()};
    return rank_locations;
}

std::string rank_map(std::span<const Host> hosts, const Placement& placement) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::string text;
    for (const Block& block : placement.blocks) {
        for (std::int32_t rank = block.begin; rank < block.end; ++rank)
            text +=
                fmt::format("{} {} {}\n", rank, hosts[block.host].name, placement.devices[rank] - firsts[block.host]);
    }
    return text;
}

}  // namespace tpx::formats
