// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <exception>
#include <filesystem>
#include <utility>

namespace tpx {

/// The Error for an exception that is not tpx's own, which is a mistake of tpx unless memory ran out.
Error unexpected(const std::exception& error);

/// Runs `body`. Exceptions that are not tpx's own become an Error "PATH: ...", so that the file can be named.
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
