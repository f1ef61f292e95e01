// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/merge_adapter.hpp"

#include "formats/open_source.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <string>

using namespace tpx;

namespace {

/// Writes the adapter of testdata/adapters/experts with a magnitude for each row of each B, as if it were DoRA.
void write_dora_of_experts(const std::filesystem::path& folder) {
    const std::filesystem::path original = "testdata/adapters/experts";
    std::string settings = read_file(original / "adapter_config.json");
    const std::string unset = "\"use_dora\": false";
    settings.replace(settings.find(unset), unset.size(), "\"use_dora\": true");
    test::write_text(folder / "adapter_config.json", settings);
    const std::string file = read_file(original / "adapter_model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    nlohmann::json header = nlohmann::json::parse(file.substr(sizeof length, length));
    std::string data = file.substr(sizeof length + length);
    const nlohmann::json stored = header;
    for (const auto& [name, entry] : stored.items()) {
        const std::size_t at = name.find(".lora_B.weight");
        if (at == name.npos) continue;
        const auto rows = entry["shape"][0].get<std::uint64_t>();
        header[name.substr(0, at) + ".lora_magnitude_vector"] = {
            {"dtype", "F32"}, {"shape", {rows}}, {"data_offsets", {data.size(), data.size() + 4 * rows}}};
        data.append(4 * rows, '\0');
    }
    const std::string text = header.dump();
    length = text.size();
    std::string start(sizeof length, '\0');
    std::memcpy(start.data(), &length, sizeof length);
    test::write_text(folder / "adapter_model.safetensors", start + text + data);
}

}  // namespace

TEST_CASE("DoRA of experts is refused") {
    const test::Scratch scratch;
    write_dora_of_experts(scratch.path());
    formats::Source source = formats::open_source("testdata/adapters/experts-base", test::families(), {});
    CHECK(test::message_of([&] {
              formats::merge_adapter(source, scratch.path());
          }).ends_with("DoRA of embeddings, transposed weights (fan_in_fan_out) and experts cannot be merged"));
}
