// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/driver.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// The tensors of a checkpoint with their digests, except the steps.
nlohmann::json tensors_but_steps(const Checkpoint& checkpoint) {
    check_no_holes(checkpoint.catalogue);
    std::vector<Tensor> tensors = checkpoint.catalogue.tensors;
    std::erase_if(tensors, [](const Tensor& tensor) { return tensor.name.ends_with("/step"); });
    return test::describe(tensors, test::assemble(checkpoint.catalogue));
}

void check_fixture(const fs::path& directory, const fs::path& json) {
    CAPTURE(directory.string());
    const Checkpoint checkpoint = open_deepspeed(directory);
    nlohmann::json found = tensors_but_steps(checkpoint);
    // The expectations for universal checkpoints list no weights, although DeepSpeed stores them in the model files.
    const nlohmann::json want = test::expected_tensors(json);
    if (checkpoint.format == &universal_driver) {
        for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
            if (checkpoint.roles[t] == Role::weight) found.erase(checkpoint.catalogue.tensors[t].name);
    }
    CHECK(found == want);
    CHECK(checkpoint.iteration == 2);
}

}  // namespace

TEST_CASE("checkpoints of DeepSpeed are read: weights, master weights and moments") {
    for (const char* name : {"zero2-roundrobin-dp4", "zero3-subgroups-dp2", "mpu-tp2-dp2", "autotp-tp2"}) {
        const fs::path folder = fs::path{"testdata/deepspeed"} / name;
        check_fixture(folder, folder.string() + ".json");
    }
}

TEST_CASE("every DeepSpeed fixture is read, whatever its stage, and every universal one") {
    const fs::path folder = test::fixtures();
    if (folder.empty()) return;
    for (const auto& fixture : fs::directory_iterator{folder / "deepspeed"}) {
        if (fs::exists(fixture.path() / "fixture.json"))
            check_fixture(fixture.path() / "ckpt", fixture.path() / "fixture.json");
    }
}

TEST_CASE("the layout follows from the files, and the step folder alone can be read") {
    const Checkpoint checkpoint = open_deepspeed("testdata/deepspeed/mpu-tp2-dp2");
    REQUIRE(checkpoint.layout);
    CHECK(to_string(*checkpoint.layout) == "tp=2,dp=2,zero=1");
    CHECK(to_string(*open_deepspeed("testdata/deepspeed/zero3-subgroups-dp2").layout) == "dp=2,zero=3");
    const Checkpoint step = open_deepspeed("testdata/deepspeed/mpu-tp2-dp2/global_step2");
    CHECK(tensors_but_steps(step) == tensors_but_steps(checkpoint));
}

TEST_CASE("round-robin partitions are read by shapes, with a note about other tools") {
    const Checkpoint checkpoint = open_deepspeed("testdata/deepspeed/zero2-roundrobin-dp4");
    REQUIRE(checkpoint.notes.size() == 1);
    CHECK(checkpoint.notes[0].find("ds_to_universal mixes the parameters up") != std::string::npos);
    CHECK(open_deepspeed("testdata/deepspeed/zero3-subgroups-dp2").notes.empty());
}

}  // namespace tpx::formats
