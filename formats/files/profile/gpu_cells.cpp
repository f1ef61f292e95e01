// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/gres_cells.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "formats/files/profile/table.hpp"
#include "lib/core/error.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

// Parses cells with numbers of GPUs, types of GPUs and numbers of hosts.
namespace tpx::formats::cells {
namespace {

int checked_count(double count, std::string_view text, std::string_view of) {
    constexpr int most = 1 << 17;
    if (count != std::floor(count) || count > most) throw failure("'{}' is not a number of {}", text, of);
    return static_cast<int>(count);
}

// Whether text such as "A100-80GB" or "NVIDIA H100" names a type of GPU: its first word contains a digit or is a maker.
// "nodes" and "DGX A100" do not, nor do names of hosts such as "p4d.24xlarge".
bool is_gpu_type(std::string_view text) {
    const std::string all = lower_case(text);
    for (const char* host : {"dgx", "hgx", "cluster", "node", "host", "server", "highgpu", "megagpu", "standard_", "."})
        if (all.find(host) != all.npos) return false;
    constexpr std::array<std::string_view, 6> makers{"nvidia", "amd", "intel", "tesla", "geforce", "rtx"};
    const std::string word = lower_case(text.substr(0, text.find(' ')));
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    return !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0 &&
           (std::ranges::any_of(word, is_digit) || std::ranges::count(makers, word) > 0);
}

// A number of GPUs, and the text before or behind it.
struct CountAndText {
    std::string_view digits, rest;
    bool has_times_sign = false;
};

constexpr std::array<std::string_view, 4> times_signs{"x", "X", "*", "\xC3\x97"};

// Splits "8x A100", "8 x A100", "8 A100" or "8 GPUs"; unset for other text, such as "8" and "910B".
std::optional<CountAndText> leading_count(std::string_view text) {
    CountAndText found;
    found.digits = text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
    found.rest = text.substr(found.digits.size());
    const auto trim = [&] { found.rest.remove_prefix(std::min(found.rest.find_first_not_of(' '), found.rest.size())); };
    const bool has_blank = found.rest.starts_with(' ');
    trim();
    for (const std::string_view sign : times_signs) {
        if (!found.rest.starts_with(sign) || found.has_times_sign) continue;
        found.rest.remove_prefix(sign.size());
        found.has_times_sign = true;
    }
    trim();
    if (found.digits.empty() || found.digits.size() > 6 || !(has_blank || found.has_times_sign)) return std::nullopt;
    return found;
}

// Whether the sign at the end of `text` is one of multiplication: it stands alone, or directly between two numbers, as
// in "A100x8". The X of "MI300X 8" and the lanes of "A100 PCIe x16" are none.
bool multiplies(std::string_view text, std::string_view sign, bool touches_count) {
    const std::string_view before = text.substr(0, text.size() - sign.size());
    const std::string words = lower_case(before);
    if (words.find("pcie") != words.npos || words.find("nvlink") != words.npos) return false;
    if (before.ends_with(' ') || before.ends_with('(')) return true;
    return sign != "X" && touches_count && !before.empty() &&
           std::isdigit(static_cast<unsigned char>(before.back())) != 0;
}

// Splits "A100 x 8", "A100x8" or "A100 (x8)"; unset for other text, such as "A100", "RTX 6000" and "V100 (32)".
std::optional<CountAndText> trailing_count(std::string_view text) {
    const bool is_enclosed = text.ends_with(')') && text.find('(') != text.npos;
    if (is_enclosed) text.remove_suffix(1);
    const auto trim = [&] { text = text.substr(0, text.find_last_not_of(' ') + 1); };
    CountAndText found;
    found.digits = text.substr(text.find_last_not_of("0123456789") + 1);
    text.remove_suffix(found.digits.size());
    const bool touches_count = !text.ends_with(' ');
    trim();
    for (const std::string_view sign : times_signs) {
        if (!text.ends_with(sign) || found.has_times_sign || !multiplies(text, sign, touches_count)) continue;
        text.remove_suffix(sign.size());
        found.has_times_sign = true;
    }
    trim();
    if (is_enclosed && !text.ends_with('(')) return std::nullopt;
    if (is_enclosed) text.remove_suffix(1);
    trim();
    found.rest = text;
    if (found.digits.empty() || found.digits.size() > 6 || !found.has_times_sign) return std::nullopt;
    return found;
}

}  // namespace

std::optional<TypedGpus> typed_gpus(std::string_view text) {
    constexpr int most = 4096;
    const auto leading = leading_count(text);
    const auto found = leading && leading->has_times_sign ? leading : trailing_count(text);
    if (!found || !found->has_times_sign || !is_gpu_type(found->rest)) return std::nullopt;
    const double count = parse_number(found->digits);
    if (count < 1 || count > most) return std::nullopt;
    std::string_view type = found->rest;
    for (const std::string_view word : {" GPUs", " GPU", " gpus", " gpu"})
        if (type.ends_with(word)) type.remove_suffix(word.size());
    return TypedGpus{static_cast<int>(count), std::string{type}};
}

int gpu_count(std::string_view text) {
    if (const auto gpus = gres_gpus(text); gpus && lower_case(text) != "gpu") {
        if (*gpus < 1) throw failure("'{}' contains no GPUs", text);
        return *gpus;
    }
    if (const auto typed = typed_gpus(text)) return typed->count;
    const auto found = leading_count(text);
    const std::string words = found ? lower_case(found->rest) : "";
    if (words == "gpu" || words == "gpus" || is_gpu_type(words))
        return checked_count(positive(found->digits), text, "GPUs");
    return checked_count(positive(text), text, "GPUs");
}

bool is_count_not_type(std::string_view text) {
    const auto number = finite_number(text);
    const bool is_model = number && *number >= 1000 && *number < 10'000 && std::fmod(*number, 10) == 0;
    return number && !is_model;
}

int host_count(std::string_view text) { return checked_count(positive(text), text, "hosts"); }

}  // namespace tpx::formats::cells
