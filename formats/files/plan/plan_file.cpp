// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_file.hpp"

#include "formats/files/plan/file_change.hpp"
#include "formats/files/plan/hdf5.hpp"
#include "formats/files/plan/plan_columns.hpp"
#include "formats/files/plan/plan_tables.hpp"
#include "formats/files/plan/plan_values.hpp"
#include "lib/check/check_shape.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <set>

namespace tpx::formats {
namespace {

// Writes each visited column and its group.
class ColumnWriter {
public:
    explicit ColumnWriter(hdf5::Writer& file) : file_{file} {}

    template <class T>
    void operator()(const char* name, const std::vector<T>& column) {
        const std::string_view path{name};
        const std::string group{path.substr(0, path.find('/'))};
        if (groups_.insert(group).second) file_.group(group.c_str());
        const hsize_t rows = column.size();
        if constexpr (std::is_same_v<T, std::string>)
            file_.texts(name, column);
        else
            file_.numbers<T>(name, column, std::span{&rows, 1});
    }

private:
    hdf5::Writer& file_;
    std::set<std::string> groups_;
};

// Reads each visited column.
struct ColumnReader {
    const hdf5::Reader& file;

    template <class T>
    void operator()(const char* name, std::vector<T>& column) const {
        if constexpr (std::is_same_v<T, std::string>) {
            column = file.texts(name);
        } else {
            const std::vector<hsize_t> shape = file.shape(name);
            column = file.numbers<T>(name, std::span{shape}.first(1));
        }
    }
};

void write_tables(hdf5::Writer& file, const PlanTables& tables) {
    ColumnWriter write{file};
    if (tables.model) {
        file.attribute("layers", tables.model->layers);
        for_each_model_column(*tables.model, write);
        const auto& classes = tables.model->classes;
        file.numbers<std::int64_t>("classes/shape", classes.shape,
                                   std::array<hsize_t, 2>{classes.name.size(), tables.model->widest});
        if (!tables.model->virtual_nodes.empty()) write("virtual_nodes/class", tables.model->virtual_nodes);
    }
    if (tables.hosts) {
        file.attribute("state", tables.hosts->state);
        for_each_host_number(*tables.hosts, [&](const char* name, auto number) { file.attribute(name, number); });
        for_each_host_column(*tables.hosts, write);
        const auto& transfers = tables.hosts->transfers;
        if (transfers.to_rank.size() == transfers.to.size()) for_each_rank_column(*tables.hosts, write);
        for_each_source_column(*tables.hosts, write);
        if (tables.hosts->group > 1) file.attribute("group", tables.hosts->group);
        if (!tables.hosts->group_prices.empty()) {
            file.attribute("group_bound", tables.hosts->group_bound);
            write("tp_groups/price", tables.hosts->group_prices);
        }
        if (!tables.hosts->lost_devices.empty()) write("lost/device", tables.hosts->lost_devices);
    }
}

ModelTables read_model(const hdf5::Reader& file) {
    ModelTables tables;
    tables.layers = file.attribute_number("layers");
    for_each_model_column(tables, ColumnReader{file});
    const std::vector<hsize_t> shape = file.shape("classes/shape");
    if (shape.size() != 2) throw failure("'classes/shape': not two dimensions");
    tables.widest = shape[1];
    tables.classes.shape = file.numbers<std::int64_t>("classes/shape", shape);
    if (file.has_group("virtual_nodes")) ColumnReader{file}("virtual_nodes/class", tables.virtual_nodes);
    return tables;
}

struct NumberReader {
    const hdf5::Reader& file;
    void operator()(const char* name, std::uint64_t& number) const { number = file.attribute_number(name); }
    void operator()(const char* name, double& number) const { number = file.attribute_real(name); }
};

HostTables read_hosts(const hdf5::Reader& file) {
    HostTables tables;
    tables.state = file.attribute_text("state");
    for_each_host_number(tables, NumberReader{file});
    for_each_host_column(tables, ColumnReader{file});
    if (file.has_column("transfers/from_rank") || file.has_column("transfers/to_rank"))
        for_each_rank_column(tables, ColumnReader{file});
    if (file.has_group("sources")) for_each_source_column(tables, ColumnReader{file});
    if (file.has_attribute("group")) tables.group = file.attribute_number("group");
    if (file.has_group("tp_groups")) {
        tables.group_bound = file.attribute_number("group_bound");
        ColumnReader{file}("tp_groups/price", tables.group_prices);
    }
    if (file.has_group("lost")) ColumnReader{file}("lost/device", tables.lost_devices);
    return tables;
}

// Throws Error unless the plan is for a checkpoint or a model, and has all parts that belong together.
void check_parts(const PlanTables& tables, bool of_checkpoint) {
    if (tables.model.has_value() == of_checkpoint) throw failure("not made either for a checkpoint or from a model");
    if (tables.model && !tables.hosts) throw failure("a model without hosts");
    check_shape(tables);
}

PlanTables read_tables(const hdf5::Reader& file) {
    PlanTables tables{.from = file.attribute_text("from"), .to = file.attribute_text("to")};
    if (file.has_group("classes")) tables.model = read_model(file);
    if (file.has_group("hosts")) tables.hosts = read_hosts(file);
    return tables;
}

StoredPlan read_content(const hdf5::Reader& file) {
    StoredPlan stored{.content = {}, .tables = read_tables(file)};
    if (file.attribute_text("schema") != plan_schema) throw failure("'schema': not {}", plan_schema);
    PlanFile& content = stored.content;
    PlanTables& tables = stored.tables;
    content.version = file.attribute_text("version");
    content.from = tables.from;
    content.to = tables.to;
    if (file.has_group("moves")) content.checkpoint = read_checkpoint_plan(file);
    if (content.checkpoint && tables.hosts) tables.held = held_tables(*content.checkpoint);
    check_parts(tables, content.checkpoint.has_value());
    if (content.checkpoint) check_values(*content.checkpoint);
    if (tables.model) content.model = from_tables(*tables.model, file.attribute_text("model"), *tables.hosts);
    if (tables.hosts) content.hosts = from_tables(*tables.hosts);
    stored.request_digest = file.attribute_number("request_digest");
    return stored;
}

}  // namespace

void write_plan_file(const std::filesystem::path& path, const PlanFile& content) {
    const PlanTables tables = to_tables(content);
    in_context([&] { return path.string(); },
               [&] {
                   check_parts(tables, content.checkpoint.has_value());
                   if (content.checkpoint) check_values(*content.checkpoint);
               });
    hdf5::Writer file{path, plan_schema};
    file.attribute("schema", plan_schema);
    file.attribute("version", content.version);
    file.attribute("from", content.from);
    file.attribute("to", content.to);
    file.attribute("request_digest", request_digest(content));
    if (content.model) file.attribute("model", content.model->name);
    write_tables(file, tables);
    if (content.checkpoint) write_checkpoint_plan(file, *content.checkpoint);
    file.commit();
}

bool is_plan_file(const std::filesystem::path& path) {
    constexpr std::string_view kind = plan_schema.substr(0, plan_schema.find('/') + 1);
    std::string start(std::min<std::uint64_t>(size_of_file(path), kind.size()), '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{start}), path);
    return start == kind;
}

StoredPlan read_stored_plan(const std::filesystem::path& path) {
    const hdf5::Reader file{path, plan_schema};
    return in_context([&] { return path.string(); }, [&] { return read_content(file); });
}

PlanFile read_plan_file(const std::filesystem::path& path) { return read_stored_plan(path).content; }

}  // namespace tpx::formats
