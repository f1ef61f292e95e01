// SPDX-License-Identifier: Apache-2.0
// libfuzzer_readers --entry=ENTRY LIBFUZZER-OPTION... [CORPUS...]: libFuzzer feeds one entry. The run ends if the entry
// throws anything except Error, or at a sanitizer's finding.
#include "lib/core/error.hpp"
#include "tests/fuzz/entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

const tpx::fuzz::Entry* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
    constexpr std::string_view option = "--entry=";
    const auto entries = tpx::fuzz::entries();
    for (int k = 1; k < *count; ++k) {
        const std::string_view argument = (*arguments)[k];
        if (!argument.starts_with(option)) continue;
        const auto found = std::ranges::find(entries, argument.substr(option.size()), &tpx::fuzz::Entry::name);
        if (found != entries.end()) chosen = &*found;
    }
    if (chosen != nullptr) return 0;
    fmt::print(stderr, "usage: libfuzzer_readers --entry=ENTRY ...\nentries:");
    for (const tpx::fuzz::Entry& entry : entries) fmt::print(stderr, " {}", entry.name);
    fmt::print(stderr, "\n");
    std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    try {
        chosen->run({reinterpret_cast<const char*>(bytes), size});
    } catch (const tpx::Error& error) {
        if (std::string_view{error.what()}.empty()) std::abort();
    }
    return 0;
}
