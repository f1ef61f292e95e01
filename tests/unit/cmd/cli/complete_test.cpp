// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/complete.hpp"

#include "cmd/commands.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx::cli;

namespace {

std::vector<std::string> offered(const std::vector<std::string>& words) {
    Cli cli;
    add_commands(cli);
    std::vector<std::string> all;
    for (const Candidate& candidate : complete(cli, words)) all.push_back(candidate.word);
    return all;
}

bool offers(const std::vector<std::string>& words, const std::string& word) {
    const auto all = offered(words);
    return std::ranges::find(all, word) != all.end();
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("commands, options, choices and files are offered where they are valid") {
    CHECK(offered({"in"}) == Words{"inspect"});
    CHECK(offers({}, "reshard"));
    CHECK(offered({"help", "re"}) == Words{"reshard"});
    CHECK(offered({"--v"}) == Words{"--version"});
    CHECK(offered({"plan", "--form"}) == Words{"--format"});
    const Words choices{"safetensors", "dcp",   "torch_dist",   "zarr", "megatron", "deepspeed",
                        "universal",   "torch", "torch-legacy", "hdf5", "keras",    "keras-legacy"};
    CHECK(offered({"plan", "--format", ""}) == choices);
    CHECK(offered({"plan", "--format=d"}) == Words{"--format=dcp", "--format=deepspeed"});
    CHECK(offered({"plan", ""}) == Words{":file"});
    CHECK(offered({"reshard", "a", ""}) == Words{":file"});
    CHECK(offered({"reshard", "--memory", ""}).empty());
    CHECK(offered({"reshard", "--dtype", "f"}) ==
          Words{"f64", "f32", "f16", "f8e4m3:block128", "f8e4m3:unscaled", "f8e5m2:unscaled"});
    CHECK(offered({"plan", "--check", ""}) == Words{":file"});
    CHECK(offered({"nonsense", ""}).empty());
    CHECK(offered({"profile", "f"}) == Words{"fit"});
    CHECK(offered({"profile", "fit", "--sug"}) == Words{"--suggest"});
    CHECK(offered({"profile", "nonsense", ""}).empty());
}

TEST_CASE("names of policies, models and keys are offered as values") {
    CHECK(offered({"simulate", "--policy", "fifo,ga"}) == Words{":nospace", "fifo,gavel", "fifo,gavel-mixed",
                                                                "fifo,gavel-virtualflow",
                                                                "fifo,gavel-mixed-virtualflow"});
    CHECK(offered({"simulate", "--recover", ""}) == Words{"checkpoint", "replicas"});
    CHECK(offered({"simulate", "--reconfig", "c"}) == Words{"central", "checkpoint"});
    CHECK(offered({"simulate", "--sweep", "lo"}) == Words{":nospace", "load="});
    CHECK(offered({"simulate", "--sweep", "load=1,"}).empty());
    CHECK(offered({"simulate", "--generate", "jobs=5,h"}) == Words{":nospace", "jobs=5,hourly="});
    CHECK(offered({"plan", "--model", "llama3-7"}) == Words{"llama3-70b", ":file"});
    CHECK(offered({"plan", "--roles", ""}) == Words{"train", "weights"});
}

TEST_CASE("after the last argument, options are offered, each once unless it repeats") {
    CHECK(offers({"inspect", "a", ""}, "--tensors"));
    CHECK(!offers({"inspect", "a", "--tensors", "--"}, "--tensors"));
    CHECK(offers({"inspect", "a", "--rules", "x", "--"}, "--rules"));
    CHECK(!offers({"plan", "-o", "x", "--"}, "--output"));
    CHECK(offered({"inspect", "--", "a", "-"}).empty());
}

TEST_CASE("a layout is offered key by key") {
    CHECK(offers({"plan", "a", "--to", ""}, "tp="));
    CHECK(offers({"plan", "a", "--to", ""}, ":file"));
    CHECK(offers({"plan", "a", "--to", ""}, ":nospace"));
    CHECK(offers({"plan", "a", "--to", "tp=4,"}, "tp=4,pp="));
    CHECK(!offers({"plan", "a", "--to", "tp=4,"}, "tp=4,tp="));
    CHECK(offers({"plan", "a", "--to", "etp=4,"}, "etp=4,tp="));
    CHECK(offered({"plan", "a", "--to", "tp=4,fsdp_"}) == Words{":nospace", "tp=4,fsdp_dim="});
    CHECK(offers({"plan", "a", "--to=tp=4,"}, "--to=tp=4,pp="));
    CHECK(offered({"plan", "a", "--to", "tp="}).empty());
    CHECK(offered({"plan", "a", "--to", "pp=2,stages=[3,"}).empty());
    CHECK(offers({"plan", "a", "--to", "stages=[3,1],"}, "stages=[3,1],pp="));
}

TEST_CASE("every key of a layout has a description") {
    Cli cli;
    add_commands(cli);
    for (const Candidate& candidate : complete(cli, Words{"plan", "a", "--to", ""}))
        if (candidate.word[0] != ':') CHECK_MESSAGE(!candidate.description.empty(), candidate.word);
}
