// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <exception>
#include <filesystem>
#include <utility>

namespace tpx {

/// The Error for an exception that is not tpx's own, which indicates a bug in tpx unless memory or threads ran out.
Error unexpected(const std::exception& error);

/// Runs `body`. Exceptions that are not tpx's own become an Error "PATH: ...", which names the file.
template <class Body>
decltype(auto) reading(const std::filesystem::path& path, Body&& body) {
    try {
        return std::forward<Body>(body)();
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        Error mine = unexpected(error);
        mine.prepend(path.string());
        throw mine;
    }
}

}  // namespace tpx
