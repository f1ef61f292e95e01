// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/stored_plan.hpp"

#include "lib/change/certificate.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"

namespace tpx::cli {
namespace {

/// Throws Error with the first difference between what a plan was made for, `stored`, and what there is now.
template <class T, class Same, class Name>
void compare(std::string_view what, const std::vector<T>& stored, const std::vector<T>& now, Same same, Name name) {
    if (stored.size() != now.size())
        throw Error{Exit::no, "was made for {} {}, there are {} now", stored.size(), what, now.size()};
    for (std::size_t i = 0; i < now.size(); ++i) {
        if (!same(stored[i], now[i]))
            throw Error{Exit::no, "was made for other {}: number {} ({}) is not the same now", what, i, name(now[i])};
    }
}

void compare_tensors(const std::vector<Tensor>& stored, const std::vector<Tensor>& now) {
    compare(
        "tensors", stored, now,
        [](const Tensor& a, const Tensor& b) { return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape; },
        [](const Tensor& tensor) { return fmt::format("'{}', {}", tensor.name, name(tensor.dtype)); });
}

void compare_files(std::string_view what, const std::vector<FileEntry>& stored, const std::vector<FileEntry>& now) {
    compare(
        what, stored, now, [](const FileEntry& a, const FileEntry& b) { return a.path == b.path && a.size == b.size; },
        [](const FileEntry& file) { return fmt::format("'{}', {} bytes", file.path.string(), file.size); });
}

void compare_pieces(std::string_view what, const std::vector<Tensor>& tensors, const std::vector<Piece>& stored,
                    const std::vector<Piece>& now) {
    compare(
        what, stored, now,
        [](const Piece& a, const Piece& b) {
            return a.tensor == b.tensor && a.file == b.file && a.offset == b.offset && a.box == b.box &&
                   a.strides == b.strides && a.rank == b.rank;
        },
        [&](const Piece& piece) {
            return fmt::format("{} of '{}'", to_string(piece.box), tensors[piece.tensor].name);
        });
}

}  // namespace

formats::PlanFile read_plan_to_run(const std::filesystem::path& file) {
    formats::PlanFile plan = formats::read_plan_file(file);
    if (!plan.checkpoint)
        throw Error{Exit::usage, "{}: a plan for the model '{}', not for a checkpoint", file.string(),
                    plan.model ? plan.model->name : ""};
    const formats::FileChange& change = *plan.checkpoint;
    const std::vector<Tensor> target = change.target_tensors();
    const Certificate found = certify(change.source_side(), {target, change.target}, change.moves);
    if (!found.holds()) throw Error{Exit::no, "{}: {}", file.string(), found.fault};
    return plan;
}

formats::Target target_of(const formats::PlanFile& plan) {
    const formats::ConversionSettings& settings = plan.checkpoint->settings;
    formats::Target target{.layout = parse_layout(plan.to), .dialect = settings.dialect};
    const std::optional<formats::Format> format = formats::format_by_name(settings.format);
    if (!format) throw failure("unknown format '{}'", settings.format);
    target.format = *format;
    if (!settings.dtype.empty()) {
        target.dtype = dtype_by_name(settings.dtype);
        if (!target.dtype) throw failure("unknown dtype '{}'", settings.dtype);
    }
    target.config = settings.config;
    target.shard_size = settings.shard_size;
    return target;
}

void check_source(const formats::FileChange& plan, const std::filesystem::path& file, const formats::Source& source) {
    if (plan.source_digest != catalogue_digest(source.checkpoint.catalogue))
        throw Error{Exit::no, "{}: was made for another checkpoint than {} (catalogue digest {:016x})", file.string(),
                    source.checkpoint.catalogue.directory.string(), plan.source_digest};
}

void check_conversion(const formats::FileChange& plan, const std::filesystem::path& file,
                      const formats::Conversion& conversion, const formats::Source& source) {
    in_context([&] { return file.string(); },
               [&] {
                   compare_tensors(plan.tensors, conversion.source_tensors);
                   compare_tensors(plan.target_tensors(), conversion.target_tensors);
                   compare_files("files of the source", plan.source_files, source.checkpoint.catalogue.files);
                   compare_files("files to write", plan.target_files, conversion.draft.files);
                   compare_pieces("pieces of the source", plan.tensors, plan.source, conversion.source_pieces);
                   compare_pieces("pieces to write", plan.tensors, plan.target, conversion.target_pieces);
               });
}

}  // namespace tpx::cli
