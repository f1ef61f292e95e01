// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/agreed_source.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

using namespace tpx;
using cli::AgreedSource;

namespace {

namespace fs = std::filesystem;

struct Scratch {
    Scratch() : folder{fs::temp_directory_path() / fmt::format("tpx-agreed-{}", ::getpid())} {
        fs::create_directory(folder);
        fs::copy("testdata/llama-small/megatron-tp2pp2", folder / "ck", fs::copy_options::recursive);
    }
    ~Scratch() { fs::remove_all(folder); }
    fs::path folder;
};

constexpr const char* changed = "changed while tpx was reading the checkpoint";

}  // namespace

TEST_CASE("a checkpoint that is overwritten, or whose latest iteration changes, during verify is an error") {
    const mpi::Comm alone;
    const Scratch scratch;
    const fs::path tracker = scratch.folder / "ck/latest_checkpointed_iteration.txt";
    const fs::path payload = scratch.folder / "ck/iter_0000010/__0_0.distcp";
    for (const fs::path& file : {tracker, payload}) {
        const AgreedSource source{alone, (scratch.folder / "ck").string(), {}};
        CHECK_NOTHROW(source.check_unchanged(alone));
        write_file(file, read_file(file));
        CHECK_THROWS_WITH_AS(source.check_unchanged(alone), doctest::Contains(changed), Error);
    }
}

TEST_CASE("a link to a checkpoint is followed once") {
    const mpi::Comm alone;
    const Scratch scratch;
    fs::create_symlink("ck", scratch.folder / "latest");
    const AgreedSource source{alone, (scratch.folder / "latest").string(), {}};
    CHECK(source.path() == fs::canonical(scratch.folder / "ck"));
}

TEST_CASE("two sources are open at once, and each notices changes of its own files") {
    const mpi::Comm alone;
    const Scratch scratch;
    fs::copy(scratch.folder / "ck", scratch.folder / "other", fs::copy_options::recursive);
    const AgreedSource a{alone, (scratch.folder / "ck").string(), {}};
    const AgreedSource b{alone, (scratch.folder / "other").string(), {}};
    write_file(scratch.folder / "ck/iter_0000010/common.pt", "x");
    CHECK_NOTHROW(b.check_unchanged(alone));
    CHECK_THROWS_WITH_AS(a.check_unchanged(alone), doctest::Contains(changed), Error);
}
