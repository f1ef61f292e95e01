// SPDX-License-Identifier: Apache-2.0
#include "lib/core/in_path.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("a message begins with the path of its file, once") {
    const auto message = [](const std::string& path, const std::string& text) -> std::string {
        try {
            in_path(path, [&] { throw failure("{}", text); });
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    CHECK(message("a/ckpt", "tensor 'w': too large") == "a/ckpt: tensor 'w': too large");
    CHECK(message("a/ckpt", "a/ckpt: tensor 'w': too large") == "a/ckpt: tensor 'w': too large");
    CHECK(message("a/ckpt", "a/ckpt/model.pt: tensor 'w': too large") == "a/ckpt/model.pt: tensor 'w': too large");
    CHECK(message("a/ckpt", "a/ckpt2: tensor 'w': too large") == "a/ckpt: a/ckpt2: tensor 'w': too large");
    CHECK(in_path("a", [] { return 5; }) == 5);
}
