// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/own_datasets.hpp"

#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::hdf5 {
namespace {

bool is_own(const OpenedFile& file) {
    const std::string* written = text_of(file.survey.groups.at(0).attributes, schema_key);
    if (written == nullptr) return false;
    if (*written != schema) throw failure("has version '{}', but this tpx reads {}", *written, schema);
    return true;
}

Tuple<Index> index_list(const Attributes& attributes, const char* name, std::size_t axes) {
    const AttributeValue* value = find(attributes, name);
    if (value == nullptr || value->integers.size() != axes)
        throw failure("its attribute '{}' is not a list of {} whole numbers", name, axes);
    Tuple<Index> list;
    for (std::int64_t item : value->integers) list.push_back(item);
    return list;
}

void read_marks(NamedDataset& dataset) {
    const Attributes& attributes = dataset.facts->attributes;
    if (const std::string* name = text_of(attributes, name_key)) dataset.name = *name;
    if (const std::string* role = text_of(attributes, role_key)) dataset.role = roles_by_name({role, 1})[0];
    if (find(attributes, shape_key) == nullptr) return;
    const std::size_t axes = dataset.facts->shape.size();
    if (axes > max_rank) throw failure("has {} axes, more than {}", axes, max_rank);
    dataset.shape = index_list(attributes, shape_key, axes);
    dataset.first = index_list(attributes, offset_key, axes);
}

void check_ranks(std::span<const OpenedFile> files, const Checkpoint& checkpoint) {
    std::set<std::int64_t> present;
    std::int64_t ranks = 0;
    for (const OpenedFile& file : files) {
        const Attributes& root = file.survey.groups.at(0).attributes;
        if (!is_own(file)) continue;
        present.insert(number_of(root, rank_key).value_or(0));
        ranks = std::max(ranks, number_of(root, ranks_key).value_or(1));
    }
    const NameList absent = absent_numbers(present, std::int64_t{0}, ranks - 1,
                                           [](std::int64_t rank) { return fmt::format("rank {}", rank); });
    if (absent.count() > 0)
        throw failure("{}: of {} ranks, the {} of {} {} missing", checkpoint.catalogue.directory.string(), ranks,
                      absent.count() == 1 ? "file" : "files", absent.text(), absent.count() == 1 ? "is" : "are");
}

}  // namespace

std::vector<NamedDataset> own_datasets(std::span<const OpenedFile> files, const Checkpoint& checkpoint) {
    check_ranks(files, checkpoint);
    std::vector<NamedDataset> named;
    for (const OpenedFile& file : files) {
        const bool own = is_own(file);
        const auto rank = number_of(file.survey.groups.at(0).attributes, rank_key).value_or(0);
        for (const DatasetFacts& facts : file.survey.datasets) {
            if (!facts.kind.empty()) continue;
            NamedDataset dataset{.name = dotted(facts.path),
                                 .rank = own ? static_cast<std::int32_t>(rank) : 0,
                                 .facts = &facts,
                                 .file = file.number};
            if (own)
                in_context(
                    [&] {
                        return fmt::format("{}: dataset '{}'", checkpoint.catalogue.path(file.number).string(),
                                           facts.path);
                    },
                    [&] { read_marks(dataset); });
            named.push_back(std::move(dataset));
        }
    }
    return named;
}

}  // namespace tpx::formats::hdf5
