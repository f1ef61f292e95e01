// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tpx::formats::safetensors {

/// A JSON reader that rejects whatever its derived class does not expect. It builds no tree: nesting uses no memory,
/// and derived classes see the order and the repetition of keys. Text must be UTF-8, with only white space after the
/// value.
class StrictSax {
public:
    virtual ~StrictSax() = default;

    /// Throws Error "not JSON at byte N: CAUSE" if `text` is not JSON, and whatever the derived class throws.
    void parse(std::string_view text);

    // Callbacks of nlohmann::json::sax_parse.
    bool null() {
        return scalar([&] { other("null"); });
    }
    bool boolean(bool) {
        return scalar([&] { other("a boolean"); });
    }
    bool number_integer(std::int64_t) {
        return scalar([&] { other("a negative number"); });
    }
    bool number_unsigned(std::uint64_t value) {
        return scalar([&] { number(value); });
    }
    bool number_float(double, const std::string&) {
        return scalar([&] { other("a fraction or a number beyond 64 bits"); });
    }
    bool string(std::string& value) {
        return scalar([&] { text(value); });
    }
    bool binary(nlohmann::json::binary_t&) { return false; }
    bool start_object(std::size_t) {
        return open([&] { object(); });
    }
    bool end_object() {
        return close([&] { object_end(); });
    }
    bool start_array(std::size_t) {
        return open([&] { array(); });
    }
    bool end_array() {
        return close([&] { array_end(); });
    }
    bool key(std::string& name) {
        if (skipped_ == 0) member(name);
        return true;
    }
    bool parse_error(std::size_t position, const std::string& last, const nlohmann::json::exception& error);

protected:
    /// For member(): skips the value of the member, whatever it is.
    void skip_value() { skip_next_ = true; }

    virtual void object() { other("an object"); }
    virtual void object_end() {}
    virtual void array() { other("an array"); }
    virtual void array_end() {}
    virtual void member(std::string& name) = 0;
    virtual void text(std::string&) { other("a string"); }
    virtual void number(std::uint64_t) { other("a number"); }
    /// Called for each value that no other function takes. An override that returns instead of throwing ignores the
    /// value.
    virtual void other(std::string_view what) { throw failure("{} where none is allowed", what); }

private:
    template <class Take>
    bool scalar(Take take) {
        if (skip_next_)
            skip_next_ = false;
        else if (skipped_ == 0)
            take();
        return true;
    }
    template <class Take>
    bool open(Take take) {
        if (skip_next_ || skipped_ > 0) {
            skip_next_ = false;
            if (++skipped_ > deepest_skipped) throw failure("values nested more than {} deep", deepest_skipped);
        } else {
            take();
        }
        return true;
    }
    template <class Take>
    bool close(Take take) {
        if (skipped_ > 0)
            --skipped_;
        else
            take();
        return true;
    }

    static constexpr int deepest_skipped = 100;
    int skipped_ = 0;         // number of open objects and arrays of the value that is being skipped
    bool skip_next_ = false;  // skip the next value
};

}  // namespace tpx::formats::safetensors
