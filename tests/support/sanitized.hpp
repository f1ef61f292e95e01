// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tpx::test {

/// Whether this program is built with sanitizers, with which it runs several times as long: tests of readers then run
/// as usual, but those of accuracy are skipped, and random ones take fewer cases.
#if defined(__clang__)
constexpr bool is_sanitized = __has_feature(address_sanitizer);
#elif defined(__SANITIZE_ADDRESS__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

}  // namespace tpx::test
