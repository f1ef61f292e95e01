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
    /// Whether it describes a file that tpx reads or writes.
    bool is_file() const { return title().ends_with("-file"); }

    std::string text() const {
        return fmt::format(".Ss {}\n{}", title(), prose_(schema_.at("description"))) + inner(schema_);
    }

private:
    /// `schema`, or the part of this file that it refers to.
    const Json& resolved(const Json& schema) const {
        const std::string target = schema.value("$ref", "");
        return target.starts_with("#/$defs/") ? schema_.at("$defs").at(target.substr(8)) : schema;
    }

    /// The keys of the objects in `given`, below lists, maps and null; empty if there are none with fixed keys.
    std::string inner(const Json& given) const {
        const Json& schema = resolved(given);
        if (schema.contains("oneOf") && !schema.contains("properties")) {
            std::string out;
            for (const Json& variant : schema.at("oneOf"))
                out += fmt::format(".Pp\nFor {}:\n", variant.at("title").get<std::string>()) + keys(variant);
            return out;
        }
        if (schema.contains("properties")) return keys(schema);
        for (const char* key : {"items", "additionalProperties"})
            if (schema.contains(key) && schema.at(key).is_object()) return inner(schema.at(key));
        return schema.contains("anyOf") ? inner(schema.at("anyOf")[0]) : "";
    }

    /// What `given` accepts: "array of integer", "string | null", the name of a shared part, or all values.
    std::string type_of(const Json& given) const {
        if (const std::string target = given.value("$ref", ""); target.ends_with(".json"))
            return target.substr(0, target.size() - 5);
        const Json& schema = resolved(given);
        if (schema.contains("const")) return schema.at("const").dump();
        if (schema.contains("enum"))
            return joined(schema.at("enum"), [](const Json& value) {
                return value.is_string() ? value.get<std::string>() : value.dump();
            });
        if (schema.contains("anyOf"))
            return joined(schema.at("anyOf"), [this](const Json& option) { return type_of(option); });
        if (schema.contains("oneOf")) return "object";
        if (!schema.contains("type")) return "any value";
        if (schema.at("type").is_array())
            return joined(schema.at("type"), [](const Json& type) { return type.get<std::string>(); });
        if (schema.at("type") == "array" && schema.contains("items")) return "array of " + type_of(schema.at("items"));
        if (schema.at("type") == "array") return "array of 2 × " + type_of(schema.at("prefixItems")[1]);
        const Json others = schema.value("additionalProperties", Json(false));
        return others.is_object() ? "object of " + type_of(others) : schema.at("type").get<std::string>();
    }

    template <class Text>
    static std::string joined(const Json& list, Text text) {
        std::vector<std::string> words;
        for (const Json& item : list) words.push_back(text(item));
        return fmt::format("{}", fmt::join(words, " | "));
    }

    std::string keys(const Json& object) const {
        const auto required = object.value("required", std::vector<std::string>{});
        std::string out = ".Bl -tag -width Ds\n";
        for (const auto& [key, schema] : object.at("properties").items()) {
            if (key == "schema") continue;
            const bool is_required = std::ranges::find(required, key) != required.end();
            out += fmt::format(".It Cm {} No ({}{})\n", key, type_of(schema), is_required ? "" : ", optional");
            if (schema.contains("description")) out += prose_(schema.at("description"));
            out += inner(schema);
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
    std::string documents, others, parts;
    for (const std::filesystem::path& file : files) {
        const SchemaPage page{file, prose};
        (page.is_document() ? documents : page.is_file() ? others : parts) += page.text();
    }
    return fmt::format(".Sh DOCUMENTS\n{}.Sh TOML AND TRACE FILES\n{}.Sh SHARED PARTS\n{}", documents, others, parts);
}

}  // namespace tpx::cli
