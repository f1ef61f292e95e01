// SPDX-License-Identifier: Apache-2.0
#include "man/json_page.hpp"

#include "lib/core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One file of the folder, which describes a document of tpx or a part of several documents.
class SchemaPage {
public:
    SchemaPage(const std::filesystem::path& file, std::string (*prose)(const std::string& text)) : prose_{prose} {
        std::ifstream in{file};
        schema_ = Json::parse(in, nullptr, false);
        if (schema_.is_discarded()) throw failure("{}: not JSON", file.string());
    }

    std::string title() const { return schema_.at("title"); }
    bool is_document() const { return title().starts_with("tpx."); }

    std::string text() const {
        std::string out = fmt::format(".Ss {}\n{}", title(), prose_(schema_.at("description")));
        if (!schema_.contains("oneOf")) return out + keys(schema_);
        for (const Json& variant : schema_.at("oneOf"))
            out += fmt::format(
                ".Pp\n{}{}",
                prose_(fmt::format("If the document describes {}:", variant.at("title").get<std::string>())),
                keys(variant));
        return out;
    }

private:
    /// `schema`, or the part of this file that it refers to.
    const Json& resolved(const Json& schema) const {
        const std::string target = schema.value("$ref", "");
        return target.starts_with("#/$defs/") ? schema_.at("$defs").at(target.substr(8)) : schema;
    }

    /// The schema of the objects in `schema`, below lists, maps and null, or null if there are none with fixed keys.
    const Json* object_in(const Json& given) const {
        const Json& schema = resolved(given);
        if (schema.contains("properties")) return &schema;
        for (const char* key : {"items", "additionalProperties"})
            if (schema.contains(key) && schema.at(key).is_object()) return object_in(schema.at(key));
        for (const Json& option : schema.value("anyOf", Json::array()))
            if (option.contains("properties") || option.contains("$ref")) return object_in(schema.at("anyOf")[0]);
        return nullptr;
    }

    /// What `schema` accepts, in words: "list of integers", "string or null".
    std::string type_of(const Json& given) const {
        if (const std::string target = given.value("$ref", ""); target.ends_with(".json"))
            return target.substr(0, target.size() - 5);
        const Json& schema = resolved(given);
        if (schema.contains("const")) return schema.at("const").dump();
        if (schema.contains("enum")) {
            std::vector<std::string> values;
            for (const Json& value : schema.at("enum")) values.push_back(value.dump());
            return fmt::format("{}", fmt::join(values, " | "));
        }
        if (schema.contains("anyOf")) {
            std::vector<std::string> options;
            for (const Json& option : schema.at("anyOf")) options.push_back(type_of(option));
            return fmt::format("{}", fmt::join(options, " | "));
        }
        if (!schema.contains("type")) return "any value";
        if (schema.at("type").is_array()) return fmt::format("{} | null", schema.at("type")[0].get<std::string>());
        const std::string type = schema.at("type");
        if (type == "array") {
            const Json& items = schema.contains("items") ? schema.at("items") : schema.at("prefixItems")[1];
            const std::string size = schema.contains("items") ? "array of " : "array of 2 × ";
            return size + type_of(items);
        }
        if (type == "object" && schema.contains("additionalProperties") &&
            schema.at("additionalProperties").is_object())
            return "object of " + type_of(schema.at("additionalProperties"));
        return type;
    }

    std::string keys(const Json& object) const {
        const auto required = object.value("required", std::vector<std::string>{});
        std::string out = ".Bl -tag -width Ds\n";
        for (const auto& [key, schema] : object.at("properties").items()) {
            if (key == "schema") continue;
            const bool is_required = std::ranges::find(required, key) != required.end();
            out += fmt::format(".It Cm {} No ({}{})\n", key, type_of(schema), is_required ? "" : ", optional");
            if (schema.contains("description")) out += prose_(schema.at("description"));
            if (const Json* inner = object_in(schema)) out += keys(*inner);
        }
        return out + ".El\n";
    }

    std::string (*prose_)(const std::string& text);
    Json schema_;
};

}  // namespace

std::string json_documents(const std::filesystem::path& folder, std::string (*prose)(const std::string& text)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator{folder})
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::ranges::sort(files);
    std::string documents, parts;
    for (const std::filesystem::path& file : files) {
        const SchemaPage page{file, prose};
        (page.is_document() ? documents : parts) += page.text();
    }
    return fmt::format(".Sh DOCUMENTS\n{}.Sh SHARED PARTS\n{}", documents, parts);
}

}  // namespace tpx::cli
