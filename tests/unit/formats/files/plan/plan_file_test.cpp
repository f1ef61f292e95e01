// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_file.hpp"

#include "formats/files/plan/plan_check.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/unit/formats/files/plan/planned.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>

using namespace tpx;
using namespace tpx::formats;
using namespace tpx::testing;

namespace {

// A folder that is removed at the end of the test.
struct Scratch {
    std::filesystem::path folder;

    Scratch() {
        std::string pattern = (std::filesystem::temp_directory_path() / "tpx-plan-XXXXXX").string();
        folder = ::mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(folder); }

    std::filesystem::path file() const { return folder / "change.plan"; }
};

bool same(const PlanFile& a, const PlanFile& b) {
    const auto piece = [](const Piece& x, const Piece& y) {
        return x.tensor == y.tensor && x.file == y.file && x.offset == y.offset && x.box == y.box && x.rank == y.rank &&
               x.strides == y.strides;
    };
    const auto move = [](const Move& x, const Move& y) {
        return x.source == y.source && x.target == y.target && x.box == y.box;
    };
    const auto file = [](const FileEntry& x, const FileEntry& y) { return x.path == y.path && x.size == y.size; };
    const auto tensor = [](const Tensor& x, const Tensor& y) {
        return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape;
    };
    const auto settings = [](const ConversionSettings& x, const ConversionSettings& y) {
        return x.format == y.format && x.dialect == y.dialect && x.dtype == y.dtype && x.shard_size == y.shard_size &&
               x.config == y.config;
    };
    const FileChange& c = *a.checkpoint;
    const FileChange& d = *b.checkpoint;
    return a.version == b.version && a.from == b.from && a.to == b.to && c.path == d.path &&
           c.source_digest == d.source_digest && settings(c.settings, d.settings) && c.proven == d.proven &&
           c.target_dtypes == d.target_dtypes && c.roles == d.roles &&
           std::ranges::equal(c.tensors, d.tensors, tensor) &&
           std::ranges::equal(c.source_files, d.source_files, file) &&
           std::ranges::equal(c.target_files, d.target_files, file) && std::ranges::equal(c.source, d.source, piece) &&
           std::ranges::equal(c.target, d.target, piece) && std::ranges::equal(c.moves, d.moves, move);
}

}  // namespace

TEST_CASE("a plan file is read back unchanged, and its plan is proven again") {
    const Scratch scratch;
    for (unsigned seed = 0; seed < 50; ++seed) {
        const PlanFile content = checkpoint_plan(seed);
        write_plan_file(scratch.file(), content);
        CHECK(same(read_plan_file(scratch.file()), content));
        const CheckedPlan checked = check_plan_file(scratch.file());
        CHECK(checked.fault == "");
        CHECK(*checked.moves == content.checkpoint->proven);
    }
    CHECK(std::distance(std::filesystem::directory_iterator{scratch.folder}, {}) == 1);
}

TEST_CASE("an empty plan, a scalar, large offsets, unknown strides and files") {
    const Scratch scratch;
    PlanFile file;
    FileChange& content = file.checkpoint.emplace();
    write_plan_file(scratch.file(), file);
    CHECK(same(read_plan_file(scratch.file()), file));

    content.tensors = {{"step", DType::i64, {}}, {"w", DType::bf16, {Index{1} << 40, 2}}};
    content.target_dtypes = {DType::i64, DType::bf16};
    content.source_files = {{"big", UINT64_MAX}};
    content.source.resize(2);
    content.source[0].offset = UINT64_MAX - 8;
    content.source[1].tensor = 1;
    content.source[1].box = whole(content.tensors[1].shape);
    content.target = content.source;
    content.target[0].offset = 0;
    content.moves = make_moves(content.source_side(), content.source_side());
    content.proven = certify(content.source_side(), content.source_side(), content.moves);
    write_plan_file(scratch.file(), file);
    CHECK(same(read_plan_file(scratch.file()), file));
    CHECK(check_plan_file(scratch.file()).moves->bytes_read == 8 + (std::uint64_t{1} << 42));
}

TEST_CASE("references in a plan file must be valid") {
    const Scratch scratch;
    const PlanFile good = checkpoint_plan(7);
    const auto refused = [&](std::function<void(FileChange&)> alter) {
        PlanFile bad = good;
        alter(*bad.checkpoint);
        CHECK_THROWS_AS(write_plan_file(scratch.file(), bad), Error);
        CHECK_FALSE(std::filesystem::exists(scratch.file()));
    };
    refused([](FileChange& f) { f.target_dtypes.pop_back(); });
    refused([](FileChange& f) { f.tensors[0].name.clear(); });
    refused([](FileChange& f) { f.tensors[0].name += "\xff"; });
    refused([](FileChange& f) { f.tensors[0].shape = {-1}; });
    refused([](FileChange& f) { f.tensors[0].shape = {INT64_MAX, 2}; });
    refused([](FileChange& f) { f.source_files[0].path = "/etc/passwd"; });
    refused([](FileChange& f) { f.source_files[0].path = "../x"; });
    refused([](FileChange& f) { f.source_files[0].size -= 1; });
    refused([](FileChange& f) { f.target_files[1].size -= 1; });
    refused([](FileChange& f) { f.source[0].tensor = 100; });
    refused([](FileChange& f) { f.source[0].file = 2; });
    refused([](FileChange& f) { f.source[0].offset = UINT64_MAX; });
    refused([](FileChange& f) { f.source[0].rank = -2; });
    refused([](FileChange& f) { f.source[0].box.push_back({0, 1}); });
    refused([](FileChange& f) { f.target[0].strides.push_back(1); });
    refused([](FileChange& f) { f.target[0].box[0] = {0, INT64_MAX}; });
    refused([](FileChange& f) { f.target[0].box[0] = {1, 0}; });
    refused([](FileChange& f) { f.source[0].strides[0] = -1; });
    refused([](FileChange& f) { f.moves[0].source = 1000; });
    refused([](FileChange& f) { f.moves[0].target = 1000; });
}

TEST_CASE("an altered plan with a fitting CRC is found by its certificate") {
    const Scratch scratch;
    const PlanFile good = checkpoint_plan(7);
    const auto found = [&](std::function<void(FileChange&)> alter) {
        PlanFile bad = good;
        alter(*bad.checkpoint);
        write_plan_file(scratch.file(), bad);
        CHECK_FALSE(check_plan_file(scratch.file()).holds());
    };
    found([](FileChange& f) { f.moves.pop_back(); });
    found([](FileChange& f) { f.moves.push_back(f.moves[0]); });
    found([](FileChange& f) { f.moves[0].box[0].end += 1; });
    found([](FileChange& f) {
        f.target.pop_back();
        f.moves.clear();
    });
    for (auto total : {&Certificate::targets, &Certificate::moves, &Certificate::elements, &Certificate::bytes_read,
                       &Certificate::bytes_written, &Certificate::same_rank})
        found([&](FileChange& f) { f.proven.*total += 1; });
}

TEST_CASE("no byte of a plan file can change unnoticed") {
    const Scratch scratch;
    const PlanFile good = checkpoint_plan(3);
    write_plan_file(scratch.file(), good);
    const std::string bytes = read_file(scratch.file());
    const Fd fd = open_file(scratch.file(), O_RDWR);
    RandomSides random{17};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char flipped = static_cast<char>(bytes[i] ^ (1 << random.number(0, 7)));
        write_at(fd, i, std::as_bytes(std::span{&flipped, 1}), scratch.file());
        CHECK_THROWS_AS(check_plan_file(scratch.file()), Error);
        write_at(fd, i, std::as_bytes(std::span{&bytes[i], 1}), scratch.file());
    }
    CHECK_NOTHROW(check_plan_file(scratch.file()));
}

TEST_CASE("truncated files and files that are not plans are refused") {
    const Scratch scratch;
    write_plan_file(scratch.file(), checkpoint_plan(3));
    const auto size = std::filesystem::file_size(scratch.file());
    for (const auto length : {size - 1, size / 2, std::uintmax_t{513}, std::uintmax_t{100}, std::uintmax_t{0}}) {
        std::filesystem::resize_file(scratch.file(), length);
        CHECK_THROWS_AS(read_plan_file(scratch.file()), Error);
    }
    CHECK_THROWS_WITH_AS(read_plan_file(scratch.file()), (scratch.file().string() + ": not a tpx.plan/3 file").c_str(),
                         Error);
    std::ofstream{scratch.file()} << "tpx.plan/4 bytes=0";
    CHECK_THROWS_WITH_AS(read_plan_file(scratch.file()),
                         (scratch.file().string() + ": of version tpx.plan/4, this tpx reads tpx.plan/3 only").c_str(),
                         Error);
    CHECK_THROWS_AS(read_plan_file(scratch.folder / "none.plan"), Error);
    CHECK_THROWS_AS(write_plan_file(scratch.folder / "none" / "x.plan", checkpoint_plan(3)), Error);
}
