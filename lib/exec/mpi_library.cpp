// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi_library.hpp"

#include "lib/core/error.hpp"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace tpx::mpi {
namespace {

namespace fs = std::filesystem;

struct Loaded {
    const tpx_mpi_functions* functions = nullptr;
    std::string path;
};

Loaded& loaded() {
    static Loaded plugin;
    return plugin;
}

std::optional<int> number_in(const char* variable) {
    const char* text = std::getenv(variable);
    return text == nullptr ? std::nullopt : std::optional{std::atoi(text)};
}

std::vector<std::string> plugin_files() {
    const char* given = std::getenv("TPX_MPI_PLUGIN");
    if (given != nullptr && *given != '\0') return {given};
    // MPICH's launcher sets PMI_RANK only; srun with PMIx is mostly used with Open MPI.
    const bool is_openmpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
    const std::array<const char*, 3> kinds = is_openmpi ? std::array{"openmpi", "other", "mpich"}  //
                                                        : std::array{"mpich", "other", "openmpi"};
    std::error_code unknown;
    const fs::path prefix = fs::read_symlink("/proc/self/exe", unknown).parent_path().parent_path();
    std::vector<std::string> files;
    for (const char* kind : kinds)
        for (const char* folder : {"lib/tpx", "lib"})
            files.push_back((prefix / folder / fmt::format("libtpx-mpi-{}.so", kind)).string());
    return files;
}

// Loads with RTLD_GLOBAL, so that modules of an MPI find its symbols. A plug-in is never unloaded, because an MPI has
// threads.
Loaded load() {
    std::vector<std::string> reasons;
    for (const std::string& file : plugin_files()) {
        void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
        void* symbol = library == nullptr ? nullptr : dlsym(library, TPX_MPI_PLUGIN_SYMBOL);
        if (symbol == nullptr) {
            reasons.emplace_back(dlerror());
            continue;
        }
        const auto* functions = reinterpret_cast<decltype(&tpx_mpi_plugin)>(symbol)();
        if (functions->version == TPX_MPI_PLUGIN_VERSION) return {functions, file};
        reasons.push_back(fmt::format("{}: made for another version of tpx", file));
    }
    throw failure(
        "cannot load an MPI plug-in, which a job of several ranks needs: {}; compile mpi_plugin.c with mpicc "
        "(see README) and set TPX_MPI_PLUGIN",
        fmt::join(reasons, "; "));
}

// Without this check, ranks that do not know each other would all do the whole job and write the same files.
void check_launcher() {
    tpx_mpi_comm world = 0;
    int rank = 0, size = 0;
    check(functions().duplicate_world(&world), "MPI_Comm_dup");
    check(functions().rank_and_size(world, &rank, &size), "MPI_Comm_size");
    check(functions().release_comm(world), "MPI_Comm_free");
    const int launched = launched_ranks().value_or(size);
    if (size < launched)
        throw failure(
            "the launcher started {} ranks, but {} sees {}: {} was compiled for another MPI than the launcher's; set "
            "TPX_MPI_PLUGIN to a matching plug-in",
            launched, functions().library(), size, loaded().path);
}

}  // namespace

bool started_as_rank() {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
        if (std::getenv(variable) != nullptr) return true;
    }
    return false;
}

std::optional<int> launched_ranks() {
    const auto ranks = number_in("OMPI_COMM_WORLD_SIZE");
    return ranks ? ranks : number_in("PMI_SIZE");
}

void start() {
    const Loaded plugin = load();
    int allows_threads = 0;
    loaded() = plugin;
    check(plugin.functions->start(&allows_threads), "MPI_Init_thread");
    if (allows_threads == 0)
        throw failure("MPI_Init_thread: this MPI does not support MPI_THREAD_FUNNELED, which tpx needs");
    check_launcher();
}

void stop() {
    functions().stop();
    loaded() = {};
}

bool is_running() { return loaded().functions != nullptr; }

const tpx_mpi_functions& functions() { return *loaded().functions; }

void abort(int exit_status) {
    if (is_running()) functions().abort(exit_status);
}

void check(int code, const char* call) {
    if (code == 0) return;
    std::array<char, 512> text{};
    functions().explain(code, text.data(), static_cast<int>(text.size()));
    throw failure("{}: {}", call, text.data());
}

}  // namespace tpx::mpi
