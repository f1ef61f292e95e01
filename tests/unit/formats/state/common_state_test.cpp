// SPDX-License-Identifier: Apache-2.0
#include "formats/state/common_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Value;

Value attribute(Value state, const char* name) {
    return state.find("args")->as_object().state.find(name).value_or(Value{});
}

TEST_CASE("settings that are written back as they were read keep their types; others get the types of settings") {
    Document document;
    const Value state = with_args(document, document.dict(), {}, 7);
    Value args = *state.find("args");
    const std::array<Value, 1> modules{document.string("core_attn")};
    args = document.with_attribute(args, "offload_modules", document.list());
    args = document.with_attribute(args, "recompute_modules", document.list(modules));
    args = document.with_attribute(args, "config_logger_dir", document.string(""));
    args = document.with_attribute(args, "num_layers", document.integer(4));
    const Value read = document.with_key(state, "args", args);

    Config settings = args_of(read);
    settings["num_layers"] = std::int64_t{8};
    const Value written = with_args(document, read, settings, 9);
    CHECK(iteration_in(written) == 9);
    CHECK(attribute(written, "offload_modules").is(torch::Kind::list));
    CHECK(attribute(written, "recompute_modules").is(torch::Kind::list));
    CHECK(attribute(written, "config_logger_dir").is(torch::Kind::string));
    CHECK(attribute(written, "num_layers").as_int() == 8);
}

}  // namespace
}  // namespace tpx::formats
