// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace tpx {

/// Appends the in-memory bytes of `value`, to be sent to other processes of the same job.
template <class Value>
void pack(std::string& bytes, const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Removes a value that pack() appended from the front of `bytes`, and returns it.
template <class Value>
Value unpack(std::string_view& bytes) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
}

}  // namespace tpx
