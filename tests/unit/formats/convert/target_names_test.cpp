// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/target_names.hpp"

#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/torch/driver.hpp"
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
        check_target_names(format, std::vector{Tensor{name, DType::f32, {1}}});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

TEST_CASE("T24: each format refuses the names that it cannot store") {
    for (const Format format : {&safetensors_driver, &dcp_driver, &torch_driver, &torch_legacy_driver, &hdf5_driver,
                                &universal_driver, &torch_dist_driver, &megatron_driver}) {
        CAPTURE(name(format));
        for (const char* fit : {"a", "a.b", "a/b", "", ".", "caf\xc3\xa9", "a\nb"}) CHECK(holds_name(format, fit));
        CHECK(!holds_name(format, "caf\xe9"));
    }
    const std::string nul = "x\0y"s;
    CHECK(!holds_name(&hdf5_driver, nul));
    CHECK(holds_name(&safetensors_driver, nul));
    CHECK(holds_name(&torch_driver, nul));
    CHECK(!holds_name(&safetensors_driver, "__metadata__"));
    CHECK(holds_name(&hdf5_driver, "__metadata__"));
    const std::string lone_surrogate = "\xed\xa0\x80";
    CHECK(holds_name(&torch_driver, lone_surrogate));
    CHECK(!holds_name(&safetensors_driver, lone_surrogate));
}

TEST_CASE("T24: a parameter name in a universal checkpoint must be a valid folder name") {
    for (const std::string& parameter : {""s, "."s, ".."s, "../up"s, "/abs"s, "a/b"s, "x\0y"s, std::string(300, 'n')}) {
        CAPTURE(parameter);
        CHECK(!holds_name(&universal_driver, parameter + "/exp_avg"));
    }
    CHECK(holds_name(&universal_driver, "layers.0.weight/exp_avg"));
}

TEST_CASE("the message names the tensor, the cause and the format") {
    CHECK_THROWS_WITH_AS(check_target_names(&hdf5_driver, std::vector{Tensor{"x\0y"s, DType::f32, {1}}}),
                         doctest::Contains("has a NUL in its name, where HDF5 ends it, so hdf5 cannot store it"),
                         Error);
}
