// SPDX-License-Identifier: Apache-2.0
#include "formats/rules/rules_check.hpp"

#include "formats/convert/canonical.hpp"
#include "formats/open_source.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/layout/nearest_family.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace {

/// The family that `file`, a valid rules file, describes.
std::string family_in(const std::filesystem::path& file) {
    const toml::table table = toml::parse(read_file(file));
    return table["family"].value_or(std::string{});
}

std::string unsized_factors(const Reading& reading) {
    std::string letters;
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts)
            for (const Axis& axis : reading.family->tensor(part).axes)
                for (const Token token : axis)
                    if (token.letter != 'l' && !reading.dims[token.letter] &&
                        letters.find(token.letter) == letters.npos)
                        letters += token.letter;
    }
    return letters;
}

/// Reads the checkpoint by the rules of one family, as a conversion does.
void read_by(const Families& family, const std::filesystem::path& path, const Config& config, RulesCheck& check) {
    try {
        Source source = open_source(path, family, config);
        dequantize(source, {});
        if (!source.reading.family) {
            check.fault = source.reading.why_not;
            return;
        }
        check.unsized = unsized_factors(source.reading);
        if (check.unsized.empty()) canonical(source);
    } catch (const Error& error) {
        check.fault = error.what();
    }
}

}  // namespace

RulesCheck check_rules(const std::filesystem::path& file, const std::vector<std::filesystem::path>& others,
                       const std::filesystem::path& path, const Config& config) {
    std::vector<std::filesystem::path> files = others;
    files.push_back(file);
    const Families families = load_families(files);
    RulesCheck check{.family = family_in(file)};
    const auto number = families.find(check.family);
    if (!number) throw failure("{}: is a fragment; check a family that includes it", file.string());
    const Checkpoint checkpoint = open(path);
    const std::vector<Tensor>& tensors = checkpoint.catalogue.tensors;
    check.tensors = tensors.size();
    const FamilyFit fit = fit_family(families[*number], tensors);
    if (fit.dialect == nullptr) throw failure("{}: family '{}' has no dialects", file.string(), check.family);
    if (fit.known > 0) check.dialect = fit.dialect->name;
    check.explained = tensors.size() - fit.unexplained;
    check.unknown = fit.unknown;
    check.missing = fit.missing;
    read_by(families.only(*number), path, config, check);
    return check;
}

}  // namespace tpx::formats
