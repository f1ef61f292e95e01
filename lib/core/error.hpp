// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace tpx {

/// Exit status of the process; documented under EXIT STATUS in tpx(1).
enum class Exit : int { success = 0, failure = 1, usage = 2, no = 3, resumable = 75, interrupted = 130 };

/// `text` with each NUL, which would end what(), replaced by "\x00".
std::string without_nuls(std::string text);

/// The one exception tpx throws. The message reads outermost context first: "a.safetensors: tensor 'w': cause
/// (numbers)".
class Error : public std::exception {
public:
    template <class... Args>
    explicit Error(Exit exit, fmt::format_string<Args...> format, Args&&... args)
        : exit_{exit}, message_{without_nuls(fmt::format(format, std::forward<Args>(args)...))} {}

    const char* what() const noexcept override { return message_.c_str(); }
    Exit exit() const noexcept { return exit_; }

    void prepend(std::string_view context) {
        message_ = fmt::format("{}: {}", without_nuls(std::string{context}), message_);
    }

private:
    Exit exit_;
    std::string message_;
};

/// An Error with Exit::failure.
template <class... Args>
Error failure(fmt::format_string<Args...> format, Args&&... args) {
    return Error{Exit::failure, format, std::forward<Args>(args)...};
}

/// An Error with Exit::usage.
template <class... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
    return Error{Exit::usage, format, std::forward<Args>(args)...};
}

/// Runs `body`; an Error that leaves it is prefixed with `context()`, which costs nothing on success.
template <class Context, class Body>
decltype(auto) in_context(Context&& context, Body&& body) {
    try {
        return std::forward<Body>(body)();
    } catch (Error& error) {
        error.prepend(std::forward<Context>(context)());
        throw;
    }
}

}  // namespace tpx
