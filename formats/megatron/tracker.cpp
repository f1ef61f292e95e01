// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/tracker.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <charconv>
#include <string>

namespace tpx::formats::megatron {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

}  // namespace

std::optional<std::int64_t> iteration_of(const fs::path& directory) {
    const std::string name = directory.filename().string();
    return name.starts_with("iter_") ? number(std::string_view{name}.substr(5)) : std::nullopt;
}

fs::path tracked_directory(const fs::path& root) {
    constexpr std::uint64_t small_file = 1 << 20;
    const fs::path path = root / tracker_name;
    std::string text = read_file(path, small_file);
    text.erase(text.find_last_not_of(" \r\n\t") + 1);
    if (text == "release") return root / "release";
    const auto iteration = number(text);
    if (!iteration) throw failure("{}: '{:.40}' is not an iteration", path.string(), text);
    return root / fmt::format("iter_{:07}", *iteration);
}

}  // namespace tpx::formats::megatron
