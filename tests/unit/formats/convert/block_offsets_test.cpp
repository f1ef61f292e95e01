// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/block_offsets.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/encodings/file_blocks.hpp"
#include "formats/safetensors/safetensors.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {
namespace {

constexpr Index rows = 1024, columns = 256, row = columns * 4;

/// A tensor of 1 MiB whose halves begin at two bytes of a file, and the same tensor in `parts` parts on one rank each.
Conversion conversion_of(Catalogue& source, int parts) {
    source.files = {{"old", 1 << 21}};
    source.tensors = {{"w", DType::f32, {rows, columns}}};
    source.pieces = {{0, 0, 1000, {{0, rows / 2}, {0, columns}}, {columns, 1}},
                     {0, 0, 700'008, {{rows / 2, rows}, {0, columns}}, {columns, 1}}};
    Conversion out;
    out.content.tensors = out.source_tensors = out.target_tensors = source.tensors;
    out.content.ranks = parts;
    for (int k = 0; k < parts; ++k) {
        const Box box{{k * rows / parts, (k + 1) * rows / parts}, {0, columns}};
        out.content.pieces.push_back({0, 0, 0, box, {columns, 1}, k});
    }
    out.source_parts = out.target_parts = {{{own_part(source.tensors[0]), 0}}};
    out.source_pieces = canonical_pieces(source.tensors, source.pieces, out.source_parts);
    return out;
}

}  // namespace

TEST_CASE("large pieces request the offset in a block that their first element has in the source") {
    Catalogue source;
    Conversion out = conversion_of(source, 2);
    set_block_offsets(source, out);
    CHECK(out.content.pieces[0].offset == 1000);
    CHECK(out.content.pieces[1].offset == 700'008 % block_size);
    out = conversion_of(source, 4);
    set_block_offsets(source, out);
    CHECK(out.content.pieces[1].offset == (1000 + rows / 4 * row) % block_size);
}

TEST_CASE("small pieces, and pieces with other bytes in the source, request no offset") {
    Catalogue source;
    Conversion out = conversion_of(source, 8);
    set_block_offsets(source, out);
    CHECK(out.content.pieces[0].offset == 0);
    out = conversion_of(source, 2);
    out.source_tensors[0].dtype = DType::bf16;
    set_block_offsets(source, out);
    CHECK(out.content.pieces[0].offset == 0);
    out = conversion_of(source, 2);
    source.files[0].coding = std::make_shared<Coding>();
    set_block_offsets(source, out);
    CHECK(out.content.pieces[0].offset == 0);
}

TEST_CASE("drafts place large payloads at the requested offsets") {
    Catalogue source;
    Conversion out = conversion_of(source, 2);
    set_block_offsets(source, out);
    const Draft dcp = draft_dcp(out.content);
    for (std::size_t k = 0; k < 2; ++k) CHECK(dcp.pieces[k].offset % block_size == out.content.pieces[k].offset);
    out.content.pieces[1].offset = 4088;
    const Draft files = draft_safetensors(out.content);
    for (std::size_t k = 0; k < 2; ++k) CHECK(files.pieces[k].offset % block_size == out.content.pieces[k].offset);
    // Headers are padded to a multiple of 8 bytes.
    out.content.pieces[1].offset = 4087;
    CHECK(draft_safetensors(out.content).pieces[1].offset % 8 == 0);
}

}  // namespace tpx::formats
