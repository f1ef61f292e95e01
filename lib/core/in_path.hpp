// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace tpx {

/// Runs `body`; an Error that leaves it is prefixed with `path`, unless its message begins with `path` or a path below
/// it.
template <class Body>
decltype(auto) in_path(const std::string& path, Body&& body) {
    try {
        return std::forward<Body>(body)();
    } catch (Error& error) {
        const std::string_view message = error.what();
        const bool named = message.starts_with(path) && message.find_first_of(":/", path.size()) == path.size();
        if (!named) error.prepend(path);
        throw;
    }
}

}  // namespace tpx
