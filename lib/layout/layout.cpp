// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layout.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>

namespace tpx {
namespace {

constexpr int largest_degree = 1 << 24;

struct DegreeKey {
    std::string_view key;
    int Layout::*member;
    int least;
    int most = largest_degree;
};

constexpr std::array degree_keys{
    DegreeKey{"tp", &Layout::tp, 1},     DegreeKey{"pp", &Layout::pp, 1},
    DegreeKey{"dp", &Layout::dp, 1},     DegreeKey{"cp", &Layout::cp, 1},
    DegreeKey{"ep", &Layout::ep, 1},     DegreeKey{"etp", &Layout::etp, 1},
    DegreeKey{"vpp", &Layout::vpp, 1},   DegreeKey{"zero", &Layout::zero, 0, 3},
    DegreeKey{"fsdp", &Layout::fsdp, 1}, DegreeKey{"efsdp", &Layout::efsdp, 1},
    DegreeKey{"vn", &Layout::vn, 0},     DegreeKey{"fsdp_dim", &Layout::fsdp_dim, 0},
};

int parse_degree(std::string_view key, std::string_view text, int least, int most = largest_degree) {
    if (text.find('=') != text.npos)
        throw usage_error("layout: '{}={}': separate keys with commas, as in tp=4,pp=2", key, text);
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw usage_error("layout: '{}={}': must be a whole number from {} to {}", key, text, least, most);
    return value;
}

std::vector<int> parse_counts(std::string_view key, std::string_view text, int least) {
    std::vector<int> counts;
    if (!text.starts_with('[') || !text.ends_with(']'))
        throw usage_error("layout: '{}={}': must be a list as in [9,8,8,7]", key, text);
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        counts.push_back(parse_degree(key, text.substr(0, end), least));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return counts;
}

void check_order(const std::string& order) {
    std::string rest = order;
    for (std::string_view axis : {"tp", "cp", "ep", "dp", "pp"}) {
        const std::size_t at = rest.find(axis);
        if (at == std::string::npos)
            throw usage_error("layout: 'order={}': must name tp, cp, ep, dp and pp once each", order);
        rest.erase(at, 2);
    }
    if (rest != "----") throw usage_error("layout: 'order={}': must be five axes joined by '-'", order);
}

/// Values by key.
using Pairs = std::map<std::string, std::string, std::less<>>;

/// The product of degrees. Throws Error (usage) if it exceeds the largest number of ranks.
int product(std::initializer_list<int> degrees) {
    std::int64_t ranks = 1;
    for (const int degree : degrees)
        if ((ranks *= std::max(degree, 1)) > largest_degree)
            throw usage_error("layout: more than {} ranks", largest_degree);
    return static_cast<int>(ranks);
}

/// The smallest dp, starting at that of `layout`, for which ep * etp divides tp * cp * dp, and etp=1 if that fits the
/// current dp: "dp=4, or etp=1".
std::string fitting_dp(const Layout& layout, int etp) {
    const std::int64_t group = std::int64_t{layout.ep} * etp, others = std::int64_t{layout.tp} * layout.cp;
    const std::int64_t step = group / std::gcd(group, others);
    const std::int64_t dp = (layout.dp + step - 1) / step * step;
    const bool whole = layout.tp * layout.cp * layout.dp % layout.ep == 0;
    return fmt::format("dp={}{}", dp, etp > 1 && whole ? ", or etp=1" : "");
}

/// Infers omitted degrees (dp from ranks, fsdp or efsdp; fsdp from hsdp) and checks that all degrees fit together.
Layout complete(Layout layout, const Pairs& given) {
    const auto has = [&](std::string_view key) { return given.contains(key); };
    const int hsdp = has("hsdp") ? parse_degree("hsdp", given.find("hsdp")->second, 1) : 0;
    if (has("ranks")) {
        const int ranks = parse_degree("ranks", given.find("ranks")->second, 1);
        const int others = product({layout.tp, layout.pp, layout.cp});
        if (ranks % others != 0)
            throw usage_error("layout: ranks={} is not a multiple of tp*pp*cp = {}", ranks, others);
        if (has("dp") && layout.dp != ranks / others)
            throw usage_error("layout: dp={} but ranks={} and tp*pp*cp={} give dp={}", layout.dp, ranks, others,
                              ranks / others);
        layout.dp = ranks / others;
    } else if (!has("dp")) {
        layout.dp = product({layout.fsdp, hsdp});
        const int experts = layout.efsdp == 0 ? 0 : product({layout.ep, expert_tp(layout), layout.efsdp});
        if (hsdp == 0) layout.dp = std::max(layout.dp, experts / product({layout.tp, layout.cp}));
    }
    if (hsdp > 0 && !has("fsdp")) {
        if (layout.dp % hsdp != 0) throw usage_error("layout: dp={} is not a multiple of hsdp={}", layout.dp, hsdp);
        layout.fsdp = layout.dp / hsdp;
    }
    if (layout.dp % layout.fsdp != 0 || (hsdp > 0 && layout.dp != product({layout.fsdp, hsdp})))
        throw usage_error("layout: dp={} is not fsdp={} times hsdp={}", layout.dp, layout.fsdp,
                          hsdp > 0 ? hsdp : layout.dp / layout.fsdp);
    product({layout.tp, layout.pp, layout.dp, layout.cp});
    if (!layout.vn_parts.empty() && static_cast<int>(layout.vn_parts.size()) != layout.dp)
        throw usage_error("layout: vn lists the virtual nodes of {} dp coordinates, dp = {}", layout.vn_parts.size(),
                          layout.dp);
    if (!layout.stages.empty() && std::ssize(layout.stages) != std::int64_t{layout.pp} * layout.vpp)
        throw usage_error("layout: stages lists {} model chunks, pp*vpp = {}", layout.stages.size(),
                          std::int64_t{layout.pp} * layout.vpp);
    if (!layout.stages.empty() && (layout.first || layout.last))
        throw usage_error("layout: give stages, or first and last, not both");
    const int expert_ranks = layout.tp * layout.cp * layout.dp;
    const int etp = layout.etp > 0 ? layout.etp : layout.tp;
    if (expert_ranks % product({layout.ep, etp}) != 0)
        throw usage_error(
            "layout: ep={} and etp={}{} need groups of {} ranks, but tp={}, cp={} and dp={} have {}; use {}", layout.ep,
            etp, layout.etp > 0 ? "" : " (by default that of tp)", layout.ep * etp, layout.tp, layout.cp, layout.dp,
            counted(static_cast<std::uint64_t>(expert_ranks), "rank"), fitting_dp(layout, etp));
    if (layout.efsdp > 0 && (layout.fsdp == 1 || expert_dp(layout) != layout.efsdp))
        throw usage_error("layout: efsdp={} with ep={}, fsdp={} and dp={}: experts are split over {}", layout.efsdp,
                          layout.ep, layout.fsdp, layout.dp,
                          counted(static_cast<std::uint64_t>(layout.fsdp == 1 ? 1 : expert_dp(layout)), "rank"));
    if (layout.fsdp_dim > 1) throw usage_error("layout: fsdp_dim={}: must be 0 or 1", layout.fsdp_dim);
    check_order(layout.order);
    return layout;
}

/// Sets the virtual nodes from a list of their number for each dp coordinate.
void set_virtual_nodes(Layout& layout, std::string_view list) {
    layout.vn_parts = parse_counts("vn", list, 1);
    const auto sum = std::accumulate(layout.vn_parts.begin(), layout.vn_parts.end(), std::int64_t{0});
    if (layout.vn_parts.empty() || sum > largest_degree)
        throw usage_error("layout: vn: {} virtual nodes; must be 1 to {}", sum, largest_degree);
    layout.vn = static_cast<int>(sum);
}

void set(Layout& layout, std::string_view key, std::string_view value) {
    if (key == "vn" && value.starts_with('[')) return set_virtual_nodes(layout, value);
    for (const DegreeKey& degree : degree_keys) {
        if (degree.key == key) {
            layout.*degree.member = parse_degree(key, value, degree.least, degree.most);
            return;
        }
    }
    if (key == "first")
        layout.first = parse_degree(key, value, 0);
    else if (key == "last")
        layout.last = parse_degree(key, value, 0);
    else if (key == "stages")
        layout.stages = parse_counts("stages", value, 0);
    else if (key == "order")
        layout.order = value;
    else if (key != "hsdp" && key != "ranks")
        throw usage_error("layout: unknown key '{}'; valid keys: {}", key, fmt::join(layout_keys(), " "));
}

Layout from_pairs(const Pairs& given) {
    Layout layout;
    for (const auto& [key, value] : given) set(layout, key, value);
    layout.ep_key.yes = given.contains("ep");
    return complete(layout, given);
}

void add_pair(std::string_view key, std::string_view value, Pairs& given) {
    if (!given.emplace(key, value).second) throw usage_error("layout: '{}' is given twice", key);
}

/// Parses the short form "tp4pp2" or "tp4-pp2" into pairs.
void add_short(std::string_view word, Pairs& given) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (word.empty()) throw usage_error("layout: a value is missing before ','");
    std::string_view rest = word;
    do {
        const auto* number = std::ranges::find_if(rest, is_digit);
        const auto* next = std::find_if_not(number, rest.end(), is_digit);
        if (number == rest.begin() || number == rest.end())
            throw usage_error("layout: '{}': must be KEY=VALUE, such as tp=4,pp=2 or tp4pp2", word);
        add_pair({rest.begin(), number}, {number, next}, given);
        if (rest.end() - next > 1 && *next == '-') ++next;
        rest = {next, rest.end()};
    } while (!rest.empty());
}

}  // namespace

std::vector<std::string> layout_keys() {
    std::vector<std::string> keys;
    for (const DegreeKey& degree : degree_keys) keys.push_back(fmt::format("{}=", degree.key));
    for (std::string_view key : {"hsdp=", "first=", "last=", "stages=", "order=", "ranks="}) keys.emplace_back(key);
    return keys;
}

Layout parse_layout(std::string_view written) {
    std::string lower;  // TP=4 is tp=4, and blanks may follow commas
    for (const unsigned char c : written)
        if (c != ' ' || !lower.ends_with(',')) lower += static_cast<char>(std::tolower(c));
    std::string_view text = lower;
    Pairs given;
    if (text.empty()) throw usage_error("layout: empty; write for instance tp=4,pp=2");
    while (!text.empty()) {
        const std::size_t equals = text.find('='), comma = std::min(text.find(','), text.size());
        std::size_t stop = comma;
        if (equals > comma) {
            add_short(text.substr(0, comma), given);
        } else {
            const bool list = text.substr(equals + 1).starts_with('[');
            stop = list ? std::min(text.find(']') + 1, text.size()) : comma;
            if (stop == 0) stop = text.size();  // unterminated list
            add_pair(text.substr(0, equals), text.substr(equals + 1, stop - equals - 1), given);
        }
        text.remove_prefix(stop);
        if (text == ",") throw usage_error("layout: a value is missing after the last ','");
        if (text.starts_with(',')) text.remove_prefix(1);
    }
    return from_pairs(given);
}

Layout parse_layout_toml(std::string_view text, std::string_view source) {
    return in_context([&] { return std::string{source}; },
                      [&] {
                          Pairs given;
                          try {
                              for (const auto& [key, node] : toml::parse(text, source)) {
                                  std::string value;
                                  if (const toml::array* list = node.as_array()) {
                                      for (const toml::node& item : *list)
                                          value += fmt::format("{}{}", value.empty() ? "" : ",",
                                                               item.value_or(std::int64_t{-1}));
                                      value = "[" + value + "]";
                                  } else if (const auto number = node.value<std::int64_t>()) {
                                      value = std::to_string(*number);
                                  } else {
                                      value = node.value_or(std::string{});
                                  }
                                  given.emplace(key.str(), value);
                              }
                          } catch (const toml::parse_error& wrong) {
                              throw usage_error("line {}: {}", wrong.source().begin.line, wrong.description());
                          }
                          return from_pairs(given);
                      });
}

int kept_expert_ranks(const Layout& layout, int before) {
    return layout.ep > 1 || layout.ep_key.yes ? layout.ep : std::gcd(before, layout.dp);
}

std::string to_string(const Layout& layout) {
    std::vector<std::string> words;
    const auto add = [&](std::string_view key, int value, int omitted) {
        if (value != omitted) words.push_back(fmt::format("{}={}", key, value));
    };
    add("tp", layout.tp, 1);
    add("pp", layout.pp, 1);
    if (layout.fsdp == 1) add("dp", layout.dp, 1);
    add("cp", layout.cp, 1);
    add("ep", layout.ep, layout.ep_key.yes ? 0 : 1);
    if (layout.etp != layout.tp) add("etp", layout.etp, 0);
    add("vpp", layout.vpp, 1);
    add("zero", layout.zero, 0);
    add("fsdp", layout.fsdp, 1);
    if (layout.fsdp > 1) add("hsdp", layout.hsdp(), 1);
    add("efsdp", layout.efsdp, 0);
    add("fsdp_dim", layout.fsdp_dim, 0);
    if (layout.vn_parts.empty())
        add("vn", layout.vn, 0);
    else
        words.push_back(fmt::format("vn=[{}]", fmt::join(layout.vn_parts, ",")));
    if (layout.first) add("first", *layout.first, -1);
    if (layout.last) add("last", *layout.last, -1);
    if (!layout.stages.empty()) words.push_back(fmt::format("stages=[{}]", fmt::join(layout.stages, ",")));
    if (layout.order != Layout{}.order) words.push_back("order=" + layout.order);
    return words.empty() ? "tp=1" : fmt::format("{}", fmt::join(words, ","));
}

}  // namespace tpx
