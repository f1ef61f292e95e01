// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/file_change.hpp"

#include "formats/settings/config_file.hpp"
#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

// Numbers of 64 bits, one attribute each, in the certificate's order.
constexpr std::array totals{
    std::pair{"targets", &Certificate::targets},
    std::pair{"moves", &Certificate::moves},
    std::pair{"elements", &Certificate::elements},
    std::pair{"bytes_read", &Certificate::bytes_read},
    std::pair{"bytes_written", &Certificate::bytes_written},
    std::pair{"bytes_same_rank", &Certificate::same_rank},
};

// Arrays have room for the tensor with the most axes.
hsize_t axes_of(std::span<const Tensor> tensors) {
    int most = 1;
    for (const Tensor& tensor : tensors) most = std::max(most, tensor.shape.size());
    return static_cast<hsize_t>(most);
}

template <class T, class Rows, class Get>
void write_column(hdf5::Writer& file, const char* name, const Rows& rows, Get get) {
    std::vector<T> values;
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(get(row));
    const hsize_t count = rows.size();
    file.numbers<T>(name, values, std::span{&count, 1});
}

// Writes one box per row: [axis][begin, end], zeros where there is no axis.
template <class Rows>
void write_boxes(hdf5::Writer& file, const char* name, const Rows& rows, hsize_t axes) {
    std::vector<std::int64_t> values(rows.size() * axes * 2);
    auto value = values.begin();
    for (const auto& row : rows) {
        for (int k = 0; k < static_cast<int>(axes); ++k) {
            const Interval side = k < row.box.size() ? row.box[k] : Interval{};
            *value++ = side.begin;
            *value++ = side.end;
        }
    }
    file.numbers<std::int64_t>(name, values, std::array<hsize_t, 3>{rows.size(), axes, 2});
}

// Writes one tuple per row, padded with zeros.
template <class Rows, class Get>
void write_tuples(hdf5::Writer& file, const char* name, const Rows& rows, hsize_t axes, Get get) {
    std::vector<std::int64_t> values(rows.size() * axes);
    for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(get(rows[i]), values.begin() + i * axes);
    file.numbers<std::int64_t>(name, values, std::array<hsize_t, 2>{rows.size(), axes});
}

void write_files(hdf5::Writer& file, const std::string& group, std::span<const FileEntry> files) {
    std::vector<std::string> paths;
    for (const FileEntry& entry : files) paths.push_back(entry.path.string());
    file.texts((group + "/path").c_str(), paths);
    write_column<std::uint64_t>(file, (group + "/size").c_str(), files, [](const FileEntry& f) { return f.size; });
}

void write_pieces(hdf5::Writer& file, const std::string& group, std::span<const Piece> pieces, hsize_t axes) {
    const auto at = [&](const char* name) { return group + "/" + name; };
    write_column<std::uint32_t>(file, at("tensor").c_str(), pieces, [](const Piece& p) { return p.tensor; });
    write_column<std::uint32_t>(file, at("file").c_str(), pieces, [](const Piece& p) { return p.file; });
    write_column<std::uint64_t>(file, at("offset").c_str(), pieces, [](const Piece& p) { return p.offset; });
    write_column<std::int32_t>(file, at("rank").c_str(), pieces, [](const Piece& p) { return p.rank; });
    write_boxes(file, at("box").c_str(), pieces, axes);
    write_tuples(file, at("strides").c_str(), pieces, axes, [](const Piece& p) -> const Strides& { return p.strides; });
}

void write_tensors(hdf5::Writer& file, const FileChange& content, hsize_t axes) {
    std::vector<std::string> names, from, to;
    for (const Tensor& tensor : content.tensors) {
        names.push_back(tensor.name);
        from.emplace_back(name(tensor.dtype));
    }
    for (DType dtype : content.target_dtypes) to.emplace_back(name(dtype));
    file.texts("tensors/name", names);
    file.texts("tensors/source_dtype", from);
    file.texts("tensors/target_dtype", to);
    file.texts("tensors/role", names_of(content.roles));
    write_column<std::uint32_t>(file, "tensors/axes", content.tensors,
                                [](const Tensor& t) { return static_cast<std::uint32_t>(t.shape.size()); });
    write_tuples(file, "tensors/shape", content.tensors, axes, [](const Tensor& t) -> const Shape& { return t.shape; });
}

// Writes what ranks hold: pieces without places in files.
void write_held(hdf5::Writer& file, const std::string& group, std::span<const Piece> pieces, hsize_t axes) {
    const auto at = [&](const char* name) { return group + "/" + name; };
    write_column<std::uint32_t>(file, at("tensor").c_str(), pieces, [](const Piece& p) { return p.tensor; });
    write_column<std::int32_t>(file, at("rank").c_str(), pieces, [](const Piece& p) { return p.rank; });
    write_boxes(file, at("box").c_str(), pieces, axes);
}

hsize_t rows_of(const hdf5::Reader& file, const std::string& name) { return file.shape(name.c_str()).front(); }

// Reads a column, which must have `rows` rows.
template <class T>
std::vector<T> column(const hdf5::Reader& file, const std::string& name, hsize_t rows) {
    return file.numbers<T>(name.c_str(), std::span{&rows, 1});
}

std::vector<FileEntry> read_files(const hdf5::Reader& file, const std::string& group) {
    const std::vector<std::string> paths = file.texts((group + "/path").c_str());
    const auto sizes = column<std::uint64_t>(file, group + "/size", paths.size());
    std::vector<FileEntry> files;
    for (std::size_t i = 0; i < paths.size(); ++i) files.push_back({paths[i], sizes[i]});
    return files;
}

// The first `used` numbers of a row; the rest must be zero, so that no number of a file goes unread.
std::span<const std::int64_t> row_of(std::span<const std::int64_t> values, std::size_t row, std::size_t width,
                                     std::size_t used) {
    const auto all = values.subspan(row * width, width);
    if (std::ranges::any_of(all.subspan(used), [](std::int64_t value) { return value != 0; }))
        throw failure("row {} of a table has numbers where its tensor has no axis", row);
    return all.first(used);
}

Box box_of(std::span<const std::int64_t> ends) {
    Box box;
    for (std::size_t k = 0; k < ends.size(); k += 2) box.push_back({ends[k], ends[k + 1]});
    return box;
}

DType dtype_of(const std::string& text) {
    const std::optional<DType> dtype = dtype_by_name(text);
    if (!dtype) throw failure("no dtype is named '{}'", text);
    return *dtype;
}

hsize_t read_tensors(const hdf5::Reader& file, FileChange& content) {
    const std::vector<std::string> names = file.texts("tensors/name");
    const std::vector<std::string> from = file.texts("tensors/source_dtype");
    const std::vector<std::string> to = file.texts("tensors/target_dtype");
    const auto axes = column<std::uint32_t>(file, "tensors/axes", names.size());
    const std::vector<hsize_t> shape = file.shape("tensors/shape");
    if (shape.size() != 2 || shape[1] < 1 || shape[1] > max_rank || from.size() != names.size() ||
        to.size() != names.size())
        throw failure("tensors: {} names, {} source and {} target dtypes, shapes of [{}]", names.size(), from.size(),
                      to.size(), fmt::join(shape, ", "));
    const auto sizes = file.numbers<std::int64_t>("tensors/shape", std::array<hsize_t, 2>{names.size(), shape[1]});
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (axes[i] > shape[1]) throw failure("tensor '{}': {} axes, {} have room", names[i], axes[i], shape[1]);
        Tensor tensor{names[i], dtype_of(from[i]), {}};
        for (std::int64_t size : row_of(sizes, i, shape[1], axes[i])) tensor.shape.push_back(size);
        content.tensors.push_back(std::move(tensor));
        content.target_dtypes.push_back(dtype_of(to[i]));
    }
    return shape[1];
}

std::vector<Piece> read_pieces(const hdf5::Reader& file, const std::string& group, const FileChange& content,
                               hsize_t axes) {
    const hsize_t rows = rows_of(file, group + "/tensor");
    const auto tensor = column<std::uint32_t>(file, group + "/tensor", rows);
    const auto in = column<std::uint32_t>(file, group + "/file", rows);
    const auto offset = column<std::uint64_t>(file, group + "/offset", rows);
    const auto rank = column<std::int32_t>(file, group + "/rank", rows);
    const auto boxes = file.numbers<std::int64_t>((group + "/box").c_str(), std::array<hsize_t, 3>{rows, axes, 2});
    const auto strides = file.numbers<std::int64_t>((group + "/strides").c_str(), std::array<hsize_t, 2>{rows, axes});
    std::vector<Piece> pieces(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (tensor[i] >= content.tensors.size())
            throw failure("{} piece {}: tensor {} of {}", group, i, tensor[i], content.tensors.size());
        const auto own = static_cast<std::size_t>(content.tensors[tensor[i]].shape.size());
        pieces[i] = {tensor[i], in[i], offset[i], box_of(row_of(boxes, i, axes * 2, own * 2)), {}, rank[i]};
        const auto steps = row_of(strides, i, axes, own);
        if (std::ranges::all_of(steps, [](std::int64_t step) { return step == 0; })) continue;
        for (std::int64_t step : steps) pieces[i].strides.push_back(step);
    }
    return pieces;
}

// Reads the cells; files of earlier versions have none.
std::vector<PieceCell> read_cells(const hdf5::Reader& file, const FileChange& content, hsize_t axes) {
    if (!file.has_group("cells")) return {};
    const hsize_t rows = rows_of(file, "cells/parcel");
    const auto parcel = column<std::uint32_t>(file, "cells/parcel", rows);
    const auto tensor = column<std::uint32_t>(file, "cells/tensor", rows);
    const auto begin = column<std::uint64_t>(file, "cells/begin", rows);
    const auto boxes = file.numbers<std::int64_t>("cells/box", std::array<hsize_t, 3>{rows, axes, 2});
    std::vector<PieceCell> cells(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (tensor[i] >= content.tensors.size())
            throw failure("cell {}: tensor {} of {}", i, tensor[i], content.tensors.size());
        const auto own = static_cast<std::size_t>(content.tensors[tensor[i]].shape.size());
        cells[i] = {parcel[i], tensor[i], box_of(row_of(boxes, i, axes * 2, own * 2)), begin[i]};
    }
    return cells;
}

Moves read_moves(const hdf5::Reader& file, const FileChange& content, hsize_t axes) {
    const hsize_t rows = rows_of(file, "moves/source");
    const auto source = column<std::uint32_t>(file, "moves/source", rows);
    const auto target = column<std::uint32_t>(file, "moves/target", rows);
    const auto boxes = file.numbers<std::int64_t>("moves/box", std::array<hsize_t, 3>{rows, axes, 2});
    Moves moves;
    moves.resize(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (target[i] >= content.target.size())
            throw failure("move {}: target piece {} of {}", i, target[i], content.target.size());
        const auto own = static_cast<std::size_t>(content.target[target[i]].box.size());
        moves[i] = {source[i], target[i], box_of(row_of(boxes, i, axes * 2, own * 2))};
    }
    return moves;
}

std::vector<Piece> read_held(const hdf5::Reader& file, const std::string& group, const FileChange& content,
                             hsize_t axes) {
    const hsize_t rows = rows_of(file, group + "/tensor");
    const auto tensor = column<std::uint32_t>(file, group + "/tensor", rows);
    const auto rank = column<std::int32_t>(file, group + "/rank", rows);
    const auto boxes = file.numbers<std::int64_t>((group + "/box").c_str(), std::array<hsize_t, 3>{rows, axes, 2});
    std::vector<Piece> pieces(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (tensor[i] >= content.tensors.size())
            throw failure("{} piece {}: tensor {} of {}", group, i, tensor[i], content.tensors.size());
        const auto own = static_cast<std::size_t>(content.tensors[tensor[i]].shape.size());
        pieces[i].tensor = tensor[i];
        pieces[i].box = box_of(row_of(boxes, i, axes * 2, own * 2));
        pieces[i].rank = rank[i];
    }
    return pieces;
}

std::string to_json(const Config& config) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [key, value] : config) std::visit([&](const auto& scalar) { json[key] = scalar; }, value);
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_settings(hdf5::Writer& file, const ConversionSettings& settings) {
    file.attribute("format", settings.format);
    file.attribute("dialect", settings.dialect);
    file.attribute("dtype", settings.dtype);
    file.attribute("shard_size", settings.shard_size.value_or(0));
    file.attribute("config", to_json(settings.config));
}

ConversionSettings read_settings(const hdf5::Reader& file) {
    ConversionSettings settings;
    settings.format = file.attribute_text("format");
    settings.dialect = file.attribute_text("dialect");
    settings.dtype = file.attribute_text("dtype");
    if (const std::uint64_t size = file.attribute_number("shard_size"); size > 0) settings.shard_size = size;
    settings.config =
        in_context([] { return "config"; }, [&] { return parse_config_json(file.attribute_text("config")); });
    return settings;
}

}  // namespace

void write_checkpoint_plan(hdf5::Writer& file, const FileChange& content) {
    const hsize_t axes = axes_of(content.tensors);
    file.attribute("checkpoint", content.path);
    file.attribute("source_digest", content.source_digest);
    write_settings(file, content.settings);
    for (const auto& [name, member] : totals) file.attribute(name, content.proven.*member);
    for (const char* group :
         {"tensors", "source_files", "target_files", "source", "target", "moves", "held_before", "held_after", "cells"})
        file.group(group);
    write_tensors(file, content, axes);
    write_files(file, "source_files", content.source_files);
    write_files(file, "target_files", content.target_files);
    write_pieces(file, "source", content.source, axes);
    write_pieces(file, "target", content.target, axes);
    write_held(file, "held_before", content.held_before, axes);
    write_held(file, "held_after", content.held_after, axes);
    const std::vector<PieceCell>& cells = content.cells;
    write_column<std::uint32_t>(file, "cells/parcel", cells, [](const PieceCell& c) { return c.parcel; });
    write_column<std::uint32_t>(file, "cells/tensor", cells, [](const PieceCell& c) { return c.tensor; });
    write_column<std::uint64_t>(file, "cells/begin", cells, [](const PieceCell& c) { return c.begin; });
    write_boxes(file, "cells/box", cells, axes);
    const std::vector<Move>& moves = content.moves;
    write_column<std::uint32_t>(file, "moves/source", moves, [](const Move& m) { return m.source; });
    write_column<std::uint32_t>(file, "moves/target", moves, [](const Move& m) { return m.target; });
    write_boxes(file, "moves/box", moves, axes);
}

FileChange read_checkpoint_plan(const hdf5::Reader& file) {
    FileChange content;
    content.path = file.attribute_text("checkpoint");
    content.source_digest = file.attribute_number("source_digest");
    content.settings = read_settings(file);
    for (const auto& [name, member] : totals) content.proven.*member = file.attribute_number(name);
    const hsize_t axes = read_tensors(file, content);
    content.roles = roles_by_name(file.texts("tensors/role"));
    content.source_files = read_files(file, "source_files");
    content.target_files = read_files(file, "target_files");
    content.source = read_pieces(file, "source", content, axes);
    content.target = read_pieces(file, "target", content, axes);
    content.held_before = read_held(file, "held_before", content, axes);
    content.held_after = read_held(file, "held_after", content, axes);
    content.moves = read_moves(file, content, axes);
    content.cells = read_cells(file, content, axes);
    return content;
}

std::vector<Tensor> FileChange::target_tensors() const {
    std::vector<Tensor> list = tensors;
    for (std::size_t i = 0; i < list.size(); ++i) list[i].dtype = target_dtypes[i];
    return list;
}

}  // namespace tpx::formats
