// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/read_once.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/broadcast_compressed.hpp"

#include <optional>
#include <string>
#include <utility>

namespace tpx::cli {
namespace {

/// The folder of the checkpoint at `path`, without slashes at its end.
std::filesystem::path folder_of(const std::filesystem::path& path) {
    if (!path_is_directory(path)) return path.parent_path();
    return path.has_filename() ? path : path.parent_path();
}

/// Runs `body` and returns the bytes that it read; `error` becomes what it threw.
std::string recorded(const std::filesystem::path& folder, const std::function<void()>& body,
                     std::optional<Error>& error) {
    FileAnswers answers{folder};
    try {
        mpi::run_watched(body);
        return answers.take_packed();
    } catch (const Error& mine) {
        error = mine;
    } catch (const std::exception& mine) {
        error = unexpected(mine);
    }
    return {};
}

}  // namespace

void read_once(const mpi::Comm& comm, const std::filesystem::path& path, const std::function<void()>& body) {
    if (comm.size() == 1) return mpi::all_or_none(comm, body);
    std::filesystem::path folder;
    mpi::all_or_none(comm, [&] { folder = folder_of(path); });
    std::optional<Error> error;
    std::string packed = comm.rank() == 0 ? recorded(folder, body, error) : "";
    std::string fault = error ? fmt::format("{} {}", static_cast<int>(error->exit()), error->what()) : "";
    mpi::broadcast(comm, fault);
    if (!fault.empty()) {
        const std::size_t blank = fault.find(' ');
        throw mpi::AgreedError{Error{static_cast<Exit>(std::stoi(fault)), "{}", fault.substr(blank + 1)}};
    }
    broadcast_compressed(comm, packed);
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0) return;
        const FileAnswers answers{folder, std::move(packed)};
        body();
    });
}

}  // namespace tpx::cli
