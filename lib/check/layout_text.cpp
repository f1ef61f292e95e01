// SPDX-License-Identifier: Apache-2.0
#include "lib/check/layout_text.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <utility>

namespace tpx {
namespace {

constexpr std::int64_t largest = 1 << 24;

std::int64_t number(std::string_view text) {
    std::int64_t value = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < 0 || value > largest)
        throw failure("layout: '{}' is not a degree", text);
    return value;
}

std::vector<std::int64_t> numbers(std::string_view list) {
    if (list.size() < 2 || list.front() != '[' || list.back() != ']') throw failure("layout: '{}' is not a list", list);
    list = list.substr(1, list.size() - 2);
    std::vector<std::int64_t> values;
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        values.push_back(number(list.substr(0, comma)));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return values;
}

void set(Degrees& degrees, std::string_view key, std::string_view value) {
    static constexpr std::array keys{std::pair{"tp", &Degrees::tp},
                                     std::pair{"pp", &Degrees::pp},
                                     std::pair{"dp", &Degrees::dp},
                                     std::pair{"cp", &Degrees::cp},
                                     std::pair{"ep", &Degrees::ep},
                                     std::pair{"etp", &Degrees::etp},
                                     std::pair{"vpp", &Degrees::vpp},
                                     std::pair{"zero", &Degrees::zero},
                                     std::pair{"fsdp", &Degrees::fsdp},
                                     std::pair{"hsdp", &Degrees::hsdp},
                                     std::pair{"fsdp_dim", &Degrees::fsdp_dim},
                                     std::pair{"vn", &Degrees::vn}};
    const auto known = std::ranges::find(keys, key, [](const auto& entry) { return std::string_view{entry.first}; });
    if (key == "vn" && value.starts_with('[')) {
        degrees.vn = 0;
        for (std::int64_t part : numbers(value)) degrees.vn += part;
    } else if (known != keys.end())
        degrees.*(known->second) = number(value);
    else if (key == "first")
        degrees.first = number(value);
    else if (key == "last")
        degrees.last = number(value);
    else if (key == "stages")
        degrees.stages = numbers(value);
    else if (key == "order")
        degrees.order = value;
    else if (key != "efsdp")  // which only affects how checkpoints are sharded
        throw failure("layout: '{}' is not a key", key);
}

void check(const Degrees& d) {
    for (std::int64_t degree : {d.tp, d.pp, d.dp, d.cp, d.ep, d.etp, d.vpp, d.fsdp, d.hsdp}) {
        if (degree < 1) throw failure("layout: a degree is 0");
    }
    // Three factors of at most 2^24 could overflow together.
    if (d.tp * d.pp > largest || d.tp * d.pp * d.dp > largest || d.ranks() > largest || d.ep * d.etp > largest)
        throw failure("layout: more than {} ranks", largest);
    if (d.fsdp > 1 && d.fsdp * d.hsdp != d.dp) throw failure("layout: dp={} is not fsdp times hsdp", d.dp);
    if (d.fsdp_dim > 1 || d.zero > 3) throw failure("layout: no such fsdp_dim or zero");
    std::string axes;
    for (std::size_t at = 0; at < d.order.size(); at += 3) axes += d.order.substr(at, 2) + " ";
    for (std::string_view axis : {"tp ", "cp ", "ep ", "dp ", "pp "}) {
        if (d.order.size() != 14 || axes.find(axis) == axes.npos)
            throw failure("layout: '{}' is not an order", d.order);
    }
}

}  // namespace

std::int64_t tp_span(const Degrees& d) {
    if (d.tp == 1) return 1;
    const std::string_view before = std::string_view{d.order}.substr(0, d.order.find("tp"));
    std::int64_t span = d.tp;
    for (const auto& [axis, degree] : {std::pair{"cp", d.cp}, std::pair{"dp", d.dp}, std::pair{"pp", d.pp}}) {
        if (before.find(axis) != before.npos) span *= degree;
    }
    return span;
}

Degrees read_degrees(std::string_view text) {
    Degrees degrees;
    bool has_dp = false, has_etp = false;
    while (!text.empty()) {
        const std::size_t equals = text.find('=');
        if (equals == text.npos) throw failure("layout: '{}' is not a layout", text);
        const std::string_view key = text.substr(0, equals);
        text.remove_prefix(equals + 1);
        const std::size_t from = text.starts_with('[') ? std::min(text.find(']'), text.size()) : 0;
        const std::size_t end = std::min(text.find(',', from), text.size());
        set(degrees, key, text.substr(0, end));
        has_dp = has_dp || key == "dp";
        has_etp = has_etp || key == "etp";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!has_dp) degrees.dp = degrees.fsdp * degrees.hsdp;
    if (!has_etp) degrees.etp = degrees.tp;
    check(degrees);
    if (degrees.fsdp > 1) degrees.hsdp = degrees.dp / degrees.fsdp;
    return degrees;
}

Stages::Stages(const Degrees& d, std::int64_t layers) : pp_{d.pp}, chunks_{d.stages}, layers_{layers} {
    if (chunks_.empty()) {
        const std::int64_t others = d.pp - d.first.has_value() - d.last.has_value();
        const std::int64_t rest = layers - d.first.value_or(0) - d.last.value_or(0);
        if (others < 0 || rest < 0 || (others == 0 ? rest != 0 : rest % others != 0))
            throw failure("layout: {} layers cannot be split across {} stages", layers, d.pp);
        chunks_.assign(static_cast<std::size_t>(d.pp), others > 0 ? rest / others : 0);
        if (d.first) chunks_.front() = *d.first;
        if (d.last) chunks_.back() = *d.last;
        for (std::int64_t& chunk : chunks_) {
            if (chunk % d.vpp != 0)
                throw failure("layout: {} layers cannot be split into {} equal chunks", chunk, d.vpp);
            chunk /= d.vpp;
        }
    } else if (static_cast<std::int64_t>(chunks_.size()) != d.pp * d.vpp) {
        throw failure("layout: {} stages are listed, not {}", chunks_.size(), d.pp * d.vpp);
    }
    turn_ = std::accumulate(chunks_.begin(), chunks_.end(), std::int64_t{0});
    if (turn_ * (d.stages.empty() ? d.vpp : 1) != layers)
        throw failure("layout: the stages do not hold {} layers", layers);
}

std::int64_t Stages::of(std::int64_t layer) const {
    if (layer >= layers_ || turn_ == 0) return pp_ - 1;
    std::int64_t left = layer % turn_;
    std::int64_t chunk = 0;
    while (left >= chunks_[chunk]) left -= chunks_[chunk++];
    return chunk % pp_;
}

}  // namespace tpx
