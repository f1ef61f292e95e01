// SPDX-License-Identifier: Apache-2.0
#include "formats/replaceable.hpp"

#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using formats::Replaceable;
namespace fs = std::filesystem;

namespace {

/// Why `out` may not be replaced by an output made from `sources`; empty if it may.
std::string refusal(const fs::path& out, const std::vector<fs::path>& sources, const Draft& draft = {}) {
    try {
        Replaceable{sources, draft}.check(out);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream{path} << text;
}

constexpr auto recursively = fs::copy_options::recursive;

}  // namespace

TEST_CASE("checkpoints of every format can be replaced, whoever wrote them") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    write(source, "");
    for (const char* checkpoint :
         {"llama-small/hf", "llama-small/megatron-tp2pp2", "llama-small/megatron-tp2pp2/iter_0000010",
          "llama-rope/dcp-fsdp2", "llama-rope/hf", "llama-bin", "llama-hf", "llama-opt/legacy-tp2-dp2", "dcp/fsdp2-tp2",
          "deepspeed/mpu-tp2-dp2", "deepspeed/zero2-roundrobin-dp4", "deepspeed/zero3-subgroups-dp2",
          "deepspeed/stage0", "keras/tiny.h5", "keras/tiny.keras", "gguf/mixed.gguf"}) {
        CAPTURE(checkpoint);
        const fs::path out = scratch.path() / fs::path{checkpoint}.filename();
        fs::copy(fs::path{"testdata"} / checkpoint, out, recursively);
        CHECK(refusal(out, {source}) == "");
        if (fs::is_directory(out)) {
            write(out / "thesis.tex", "years of work");
            CHECK(contains(refusal(out, {source}), "'thesis.tex'"));
        }
        fs::remove_all(out);
    }
}

TEST_CASE("only checkpoints and empty folders are replaced (T1)") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    write(source, "");
    fs::create_directory(scratch.path() / "empty");
    CHECK(refusal(scratch.path() / "empty", {source}) == "");
    write(scratch.path() / "project/main.py", "");
    CHECK(contains(refusal(scratch.path() / "project", {source}), "it is not a checkpoint"));
    write(scratch.path() / "notes.txt", "notes");
    CHECK(contains(refusal(scratch.path() / "notes.txt", {source}), "it is not a checkpoint"));
    fs::create_directories(scratch.path() / "nested/empty");
    CHECK(refusal(scratch.path() / "nested", {source}) != "");
}

TEST_CASE("a folder with iterations other than the one in the tracker is not replaced (T1)") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    write(source, "");
    const fs::path root = scratch.path() / "root";
    fs::copy("testdata/llama-small/megatron-tp2pp2", root, recursively);
    fs::copy(root / "iter_0000010", root / "iter_0000005", recursively);
    write(root / "other/config.json", "{}");
    CHECK(refusal(root, {source}) ==
          "it contains files that are not part of a checkpoint and would be lost: 'iter_0000005', 'other'");
}

TEST_CASE("an output must not be part of the source (T1)") {
    const test::Scratch scratch;
    const fs::path root = scratch.path() / "root";
    fs::copy("testdata/llama-small/megatron-tp2pp2", root, recursively);
    fs::copy(root / "iter_0000010", root / "iter_0000020", recursively);
    const fs::path ten = root / "iter_0000010";
    const std::vector<fs::path> one_iteration{ten, ten / "metadata.json"};
    CHECK(contains(refusal(ten, one_iteration), "it is the input"));
    CHECK(contains(refusal(root, one_iteration), "it contains the input"));
    CHECK(contains(refusal(scratch.path(), one_iteration), "it contains the input"));
    CHECK(refusal(root / "iter_0000020", one_iteration) == "");
    CHECK(contains(refusal(root / "iter_0000020", {root, ten}), "it is inside the input"));
    SUBCASE("through a link to the source") {
        fs::create_directory_symlink(root, scratch.path() / "link");
        CHECK(contains(refusal(root, {scratch.path() / "link/iter_0000010"}), "it contains the input"));
    }
    SUBCASE("through links in the source, as in a cache of blobs") {
        const fs::path cache = scratch.path() / "cache";
        fs::create_directories(cache);
        fs::create_symlink(root / "iter_0000020/common.pt", cache / "common.pt");
        CHECK(contains(refusal(root / "iter_0000020", {cache, cache / "common.pt"}), "it contains the input"));
    }
    SUBCASE("through hard links") {
        const fs::path copy = scratch.path() / "copy";
        fs::copy(ten, copy, recursively);
        fs::remove(copy / "common.pt");
        fs::create_hard_link(ten / "common.pt", copy / "common.pt");
        CHECK(contains(refusal(copy, {ten, ten / "common.pt"}), "it contains the input 'common.pt'"));
    }
    SUBCASE("through dots") { CHECK(contains(refusal(ten / "../iter_0000010/.", one_iteration), "it is the input")); }
}

TEST_CASE("a file that is part of a checkpoint of several files is not replaced (S5)") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    write(source, "");
    const fs::path root = scratch.path() / "root";
    fs::copy("testdata/llama-opt/legacy-tp2-dp2", root, recursively);
    CHECK(contains(refusal(root / "iter_0000010/mp_rank_00/model_optim_rng.pt", {source}),
                   "it is part of the checkpoint"));
    fs::copy("testdata/llama-bin", scratch.path() / "bin");
    CHECK(refusal(scratch.path() / "bin/pytorch_model-00001-of-00002.bin", {source}) != "");
}

TEST_CASE("files that the new output contains as well are not lost") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    const fs::path out = scratch.path() / "out";
    fs::copy("testdata/llama-hf", source, recursively);
    fs::copy("testdata/llama-hf", out, recursively);
    write(source / "modeling.py", "class Model: pass\n");
    write(out / "modeling.py", "class Model: pass\n");
    Draft draft;
    CHECK(contains(refusal(out, {source}, draft), "'modeling.py'"));
    draft.files = {{"modeling.py", 18}};
    draft.copies = {{source / "modeling.py", 0, 18, 0, 0}};
    CHECK(refusal(out, {source}, draft) == "");
    write(out / "modeling.py", "class Mine:  pass\n");
    CHECK(contains(refusal(out, {source}, draft), "'modeling.py'"));
}

TEST_CASE("files that were added after the check are found") {
    const test::Scratch scratch;
    const fs::path source = scratch.path() / "source";
    write(source, "");
    const fs::path out = scratch.path() / "out";
    fs::copy("testdata/llama-hf", out, recursively);
    const Draft draft;
    Replaceable replaceable{{source}, draft};
    CHECK_NOTHROW(replaceable.check(out));
    fs::rename(out, scratch.path() / "out.old-1");
    CHECK_NOTHROW(replaceable.check(scratch.path() / "out.old-1"));
    write(scratch.path() / "out.old-1/late.txt", "");
    CHECK_THROWS_AS(replaceable.check(scratch.path() / "out.old-1"), Error);
}
