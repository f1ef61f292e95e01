// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace tpx {

/// Sole owner of one foreign handle. `Traits` gives its `Raw` type, its `null()` value, and `free(Raw)`.
template <class Traits>
class Handle {
public:
    using Raw = typename Traits::Raw;

    Handle() = default;
    explicit Handle(Raw raw) noexcept : raw_{raw} {}
    Handle(Handle&& other) noexcept : raw_{std::exchange(other.raw_, Traits::null())} {}
    Handle& operator=(Handle other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~Handle() {
        if (raw_ != Traits::null()) Traits::free(raw_);
    }

    Raw get() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != Traits::null(); }

private:
    Raw raw_ = Traits::null();
};

}  // namespace tpx
