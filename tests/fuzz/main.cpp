// SPDX-License-Identifier: Apache-2.0
// fuzz_readers ENTRY SECONDS SEED FILE...: feeds an entry the files, then damaged versions of them for SECONDS seconds.
// Exits with status 1 if the entry throws anything except Error, or if an input takes more than ten seconds of CPU
// time. The current input is then kept in fuzz-ENTRY.bin; `fuzz_readers ENTRY 0 0 fuzz-ENTRY.bin` reads it again.
// Sanitizers detect crashes.
#include "lib/core/error.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/mutate.hpp"
#include "tests/support/cpu_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace {

using namespace tpx;
using Clock = std::chrono::steady_clock;

std::string current;       // what the entry is reading
std::string current_name;  // the entry

void keep_current() {
    const std::string path = fmt::format("fuzz-{}.bin", current_name);
    std::ofstream{path, std::ios::binary} << current;
    fmt::print(stderr, "fuzz: the input is kept in {}\n", path);
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Returns whether the entry behaved correctly.
bool read(const fuzz::Entry& entry, std::string bytes, std::size_t& refused) {
    current = std::move(bytes);
    const double begin = test::cpu_seconds();
    try {
        entry.run(current);
    } catch (const Error& error) {
        ++refused;
        if (std::string_view{error.what()}.empty()) return false;
    } catch (const std::exception& error) {
        fmt::print(stderr, "fuzz: {}: {}\n", entry.name, error.what());
        return false;
    }
    const double taken = test::cpu_seconds() - begin;
    if (taken < 10) return true;
    fmt::print(stderr, "fuzz: {}: took {:.1f} s\n", entry.name, taken);
    return false;
}

std::vector<std::string> contents(int count, char** paths) {
    std::vector<std::string> files;
    for (int i = 0; i < count; ++i) {
        std::ifstream file{paths[i], std::ios::binary};
        files.emplace_back(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
    }
    return files;
}

int run(const fuzz::Entry& entry, double seconds, std::uint64_t seed, const std::vector<std::string>& corpus) {
    std::size_t inputs = 0;
    std::size_t refused = 0;
    const auto begin = Clock::now();
    const auto give = [&](std::string bytes) {
        ++inputs;
        const bool well = read(entry, std::move(bytes), refused);
        if (!well) keep_current();
        return well;
    };
    for (const std::string& file : corpus)
        if (!give(file)) return 1;
    std::mt19937_64 random{seed};
    while (seconds_since(begin) < seconds)
        if (!give(fuzz::mutate(corpus, random))) return 1;
    fmt::print("{}: {} inputs, {} refused\n", entry.name, inputs, refused);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto entries = fuzz::entries();
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return argc > 4 && e.name == argv[1]; });
    if (entry == entries.end()) {
        fmt::print(stderr, "usage: fuzz_readers ENTRY SECONDS SEED FILE...\nentries:");
        for (const auto& known : entries) fmt::print(stderr, " {}", known.name);
        fmt::print(stderr, "\n");
        return 2;
    }
    current_name = entry->name;
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_current);
    return run(*entry, std::stod(argv[2]), std::stoull(argv[3]), contents(argc - 4, argv + 4));
}
