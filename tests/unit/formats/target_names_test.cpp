// SPDX-License-Identifier: Apache-2.0
#include "formats/target_names.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::formats;
using std::string_literals::operator""s;

namespace {

bool holds_name(Format format, const std::string& name) {
    try {
        check_names(format, std::vector{Tensor{name, DType::f32, {1}}});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

TEST_CASE("T24: each format refuses the names that it cannot hold") {
    for (const Format format : {Format::safetensors, Format::dcp, Format::torch, Format::torch_legacy, Format::hdf5,
                                Format::universal, Format::torch_dist, Format::megatron}) {
        CAPTURE(name(format));
        for (const char* fit : {"a", "a.b", "a/b", "", ".", "caf\xc3\xa9", "a\nb"}) CHECK(holds_name(format, fit));
        CHECK(!holds_name(format, "caf\xe9"));
    }
    const std::string nul = "x\0y"s;
    CHECK(!holds_name(Format::hdf5, nul));
    CHECK(holds_name(Format::safetensors, nul));
    CHECK(holds_name(Format::torch, nul));
    CHECK(!holds_name(Format::safetensors, "__metadata__"));
    CHECK(holds_name(Format::hdf5, "__metadata__"));
    const std::string lone_surrogate = "\xed\xa0\x80";
    CHECK(holds_name(Format::torch, lone_surrogate));
    CHECK(!holds_name(Format::safetensors, lone_surrogate));
}

TEST_CASE("T24: a parameter of a universal checkpoint must be a folder's name") {
    for (const std::string& parameter : {""s, "."s, ".."s, "../up"s, "/abs"s, "a/b"s, "x\0y"s, std::string(300, 'n')}) {
        CAPTURE(parameter);
        CHECK(!holds_name(Format::universal, parameter + "/exp_avg"));
    }
    CHECK(holds_name(Format::universal, "layers.0.weight/exp_avg"));
}

TEST_CASE("the message names the tensor, the cause and the format") {
    CHECK_THROWS_WITH_AS(check_names(Format::hdf5, std::vector{Tensor{"x\0y"s, DType::f32, {1}}}),
                         doctest::Contains("has a NUL in its name, where HDF5 ends it, so hdf5 cannot store it"),
                         Error);
}
