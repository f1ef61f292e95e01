// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/models_file.hpp"

#include "formats/files/model_file.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

struct Sizes {
    double parameters = 0;
    int layers = 0, hidden = 0, vocabulary = 0;
};

class ModelReader {
    template <class Body>
    auto checked(const toml::node& node, Body body) const {
        try {
            return body();
        } catch (const Error& error) {
            throw toml_error(node, file_, "{}", error.what());
        }
    }

public:
    ModelReader(std::string_view file, const Families& families) : file_{file}, families_{families} {}

    JobModels::Entry entry(const toml::table& table) const {
        JobModels::Entry entry;
        auto model = std::make_shared<JobModel>();
        Sizes sizes;
        std::string described;
        for (const auto& [key, value] : table) {
            if (key == "name")
                entry.name = text_of(value, file_);
            else if (key == "gpus")
                entry.gpus = integer_of(value, file_, 1, 1 << 20);
            else if (key == "model")
                described = text_of(value, file_);
            else if (key == "parameters")
                sizes.parameters = number(value);
            else if (key == "layers")
                sizes.layers = integer_of(value, file_, 1, 1 << 16);
            else if (key == "hidden")
                sizes.hidden = integer_of(value, file_, 1, 1 << 24);
            else if (key == "vocabulary")
                sizes.vocabulary = integer_of(value, file_, 0, 1 << 24);
            else if (key == "layout")
                model->layout = checked(value, [&] { return parse_layout(text_of(value, file_)); });
            else
                throw toml_error(
                    value, file_,
                    "unknown key '{}'; name, gpus, model, parameters, layers, hidden, vocabulary and layout "
                    "are known",
                    key.str());
        }
        model->state = checked(table, [&] { return state(described, sizes); });
        entry.model = std::move(model);
        return entry;
    }

private:
    ModelState state(const std::string& described, const Sizes& sizes) const {
        const bool has_sizes = sizes.parameters > 0 && sizes.layers > 0 && sizes.hidden > 0;
        if (described.empty() != has_sizes)
            throw Error{Exit::usage, "either model, or parameters, layers and hidden are needed"};
        if (has_sizes) return transformer_state(sizes.parameters, sizes.layers, sizes.hidden, sizes.vocabulary);
        return read_model(described, families_, {}, "train");
    }

    double number(const toml::node& node) const {
        const auto value = node.value<double>();
        if (!value || !(*value >= 1 && *value <= 1e15))
            throw toml_error(node, file_, "a number from 1 to 1e15 was expected");
        return *value;
    }

    std::string_view file_;
    const Families& families_;
};

}  // namespace

std::shared_ptr<const JobModel> JobModels::find(const TraceJob& job) const {
    const auto fits = [&](const Entry& entry) {
        return job.gpus >= entry.gpus && (entry.name.empty() || entry.name == job.model);
    };
    const auto found = std::ranges::find_if(entries, fits);
    return found == entries.end() ? nullptr : found->model;
}

JobModels parse_models(std::string_view text, std::string_view file, const Families& families) {
    const toml::table root = parse_toml_text(text, file);
    const ModelReader reader{file, families};
    JobModels models;
    for (const auto& [key, value] : root) {
        const toml::array* tables = value.as_array();
        if (key != "models") throw toml_error(value, file, "unknown key '{}'; models is known", key.str());
        if (!tables || !tables->is_array_of_tables()) throw toml_error(value, file, "an array of tables was expected");
        for (const toml::node& table : *tables) models.entries.push_back(reader.entry(*table.as_table()));
    }
    if (models.entries.empty()) throw Error{Exit::usage, "{}: no models in it", file};
    return models;
}

JobModels read_models(const std::string& path, const Families& families) {
    constexpr std::uint64_t longest = std::uint64_t{1} << 20;
    return parse_models(read_file(path, longest), path, families);
}

}  // namespace tpx::formats
