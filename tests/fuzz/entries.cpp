// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/entries.hpp"

#include "formats/convert/canonical.hpp"
#include "formats/convert/conversion.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/plan/plan_file.hpp"
#include "formats/files/profile/assignment_file.hpp"
#include "formats/files/profile/gpu_profile_file.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "formats/files/profile/runs_table.hpp"
#include "formats/files/profile/throughput_file.hpp"
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "formats/files/trace/models_file.hpp"
#include "formats/files/trace/outages_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "formats/open_source.hpp"
#include "formats/rules/rules.hpp"
#include "formats/state/read_state.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/layout/layout.hpp"

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

namespace tpx::fuzz {

namespace {

namespace fs = std::filesystem;

/// A folder that exists as long as the program, in memory if the system has an in-memory file system.
class Scratch {
public:
    Scratch() {
        std::string pattern =
            (fs::exists("/dev/shm") ? fs::path{"/dev/shm"} : fs::temp_directory_path()) / "tpx-fuzz-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no scratch folder"};
        path_ = pattern;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { fs::remove_all(path_); }

    /// Fills the folder with a copy of `folder`, once.
    const Scratch& like(const fs::path& folder) {
        if (fs::is_empty(path_)) fs::copy(folder, path_, fs::copy_options::recursive);
        return *this;
    }
    fs::path write(const fs::path& name, std::string_view bytes) const {
        std::ofstream{path_ / name, std::ios::binary} << bytes;
        return path_ / name;
    }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

/// Reads the checkpoint as every command does: pieces, family, dialect, layout, payloads.
void read_checkpoint(const fs::path& path) {
    static const Families families = formats::load_families({});
    formats::Source source = formats::open_source(path, families, {});
    formats::canonical(source);
}

/// Data that can be read can also be written, without changes.
void pickle(std::string_view bytes) {
    const auto read = torch::read_pickle(bytes);
    const std::string written = torch::write_pickle(read.document.root());
    if (!equal(torch::read_pickle(written).document.root(), read.document.root()))
        throw std::logic_error{"the pickle changes when it is written and read"};
}

void torch_file(std::string_view bytes) {
    constexpr Index small = 1 << 16;
    static const Scratch scratch;
    const auto archive = torch::Archive::open(scratch.write("input.pt", bytes));
    for (const auto& [name, tensor] : archive.tensors())
        if (volume(tensor.shape) < small) archive.elements(tensor);
    archive.check_crcs();
}

void torch_checkpoint(std::string_view bytes) {
    static const Scratch scratch;
    read_checkpoint(scratch.write("input.pt", bytes));
}

/// Reads everything except tensors, as inspect --state shows it.
void state_tree(std::string_view bytes) {
    static const Scratch scratch;
    formats::read_state(formats::open(scratch.write("input.pt", bytes)));
}

void hdf5(std::string_view bytes) {
    static const Scratch scratch;
    read_checkpoint(scratch.write("input.h5", bytes));
}

void gguf(std::string_view bytes) {
    static const Scratch scratch;
    read_checkpoint(scratch.write("input.gguf", bytes));
}

void held(std::string_view bytes) {
    static const Scratch scratch;
    static const std::string manifest =
        scratch.write("manifest", R"({"tpx_held":1,"parts":[{"document":"document","segment":"segment"}]})");
    scratch.write("segment", std::string(8192, 'x'));
    scratch.write("document", bytes);
    read_checkpoint(manifest);
}

void safetensors(std::string_view bytes) {
    static const Scratch scratch;
    scratch.write("model.safetensors", bytes);
    read_checkpoint(scratch.path());
}

/// An entry for `file` of a checkpoint whose other files are those of `folder`, relative to the working directory.
template <const auto& folder, const auto& file>
void member(std::string_view bytes) {
    static Scratch scratch;
    scratch.like(fs::path{"testdata"} / folder).write(file, bytes);
    read_checkpoint(scratch.path());
}

/// The same; a checkpoint that can be read is also converted to DCP, to other ranks of DeepSpeed and to a universal
/// checkpoint.
template <const auto& folder, const auto& file>
void recut(std::string_view bytes) {
    static Scratch scratch;
    scratch.like(fs::path{"testdata"} / folder).write(file, bytes);
    for (const auto& [format, layout] : {std::pair{&formats::dcp_driver, "tp=1"},
                                         {&formats::deepspeed_driver, "dp=3"},
                                         {&formats::universal_driver, "tp=1"}}) {
        formats::Source source = formats::open_source(scratch.path(), {}, {});
        convert(source, {.layout = parse_layout(layout), .format = format});
    }
}

constexpr char indexed[] = "safetensors/good/indexed", hf[] = "llama-small/hf", dcp[] = "llama-rope/dcp-fsdp2",
               torch_dist[] = "llama-small/megatron-tp2pp2", rank_files[] = "llama-opt/legacy-tp2-dp2",
               zero2[] = "deepspeed/zero2-roundrobin-dp4", zero3[] = "deepspeed/zero3-subgroups-dp2",
               mpu[] = "deepspeed/mpu-tp2-dp2", universal[] = "deepspeed/universal-part";
constexpr char index[] = "model.safetensors.index.json", config[] = "config.json", metadata[] = ".metadata",
               distcp[] = "__0_0.distcp", iteration_metadata[] = "iter_0000010/.metadata",
               iteration_distcp[] = "iter_0000010/__0_0.distcp", common[] = "iter_0000010/common.pt",
               kind[] = "iter_0000010/metadata.json", rank_model[] = "iter_0000010/mp_rank_01/model_optim_rng.pt",
               rank_optimizer[] = "iter_0000010/mp_rank_01/distrib_optim.pt",
               module[] = "global_step2/mp_rank_00_model_states.pt",
               module3[] = "global_step2/zero_pp_rank_0_mp_rank_00_model_states.pt",
               partition[] = "global_step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
               tracker[] = "latest_checkpointed_iteration.txt", zarr[] = "megatron/zarr",
               zarr_array[] = "iter_0000010/uneven/.zarray",
               state[] = "global_step2_universal/zero/language_model.encoder.final_layernorm.weight/fp32.pt",
               universal_module[] = "global_step2_universal/mp_rank_00_model_states.pt";

void plan(std::string_view bytes) {
    static const Scratch scratch;
    formats::read_plan_file(scratch.write("input.plan", bytes));
}

void hosts(std::string_view bytes) { formats::parse_hosts(bytes, "hosts"); }
void layout(std::string_view bytes) { parse_layout(bytes); }
void layout_toml(std::string_view bytes) { parse_layout_toml(bytes, "layout.toml"); }
// Reads runs and predicts them: no number in a file may break the prediction.
void runs(std::string_view bytes) {
    const formats::Table table = formats::parse_table(bytes, "runs.csv");
    ModelSize model;
    model.parameters = 1e9;
    for (const Run& run : formats::read_runs(table, formats::default_columns(table), {32, 2, 4}))
        (void)predicted_seconds(prior_parameters(model), model, run);
}

void trace(std::string_view bytes) {
    const Cluster cluster = formats::read_cluster("8x4:K80,2x8:V100");
    formats::parse_trace(bytes, "trace.csv", cluster, {});
}

void speeds(std::string_view bytes) { formats::parse_speeds(bytes, "speeds.csv", formats::read_cluster("8x4:K80")); }

void cluster_file(std::string_view bytes) { formats::parse_cluster(bytes, "cluster.toml"); }

void models_file(std::string_view bytes) {
    static const Families families = formats::load_families({});
    formats::parse_models(bytes, "models.toml", families);
}

void outages_file(std::string_view bytes) {
    formats::parse_outages(bytes, "outages.csv", formats::read_cluster("8x4:K80"));
}

void events_file(std::string_view bytes) {
    std::vector<TraceJob> jobs(1);
    jobs[0].name = "late", jobs[0].gpus = jobs[0].least = jobs[0].most = 2;
    jobs[0].speed = std::make_shared<PowerSpeed>(2, 1);
    formats::parse_events(bytes, "events.csv", formats::read_cluster("1x4"), jobs);
}

// A file that was written once, with rounded figures, must be read and written without changes.
void hardware(std::string_view bytes) {
    const auto again = [](std::string_view text) {
        return formats::hardware_text(formats::parse_hardware(text, "hardware.toml"));
    };
    const std::string text = again(again(bytes));
    if (again(text) != text) throw std::logic_error{"a hardware file changes when it is read and written"};
}

void columns(std::string_view bytes) { formats::parse_columns(bytes, "columns.toml"); }
void throughput_model(std::string_view bytes) {
    formats::belief_before(formats::parse_throughput_model(bytes, "m.toml"));
}
void gpu_profile(std::string_view bytes) { formats::parse_gpu_profile(bytes, "p.txt"); }
void assignment(std::string_view bytes) { formats::parse_assignment(bytes, "a.toml"); }
void training_log(std::string_view bytes) {
    const formats::TrainingLog log = formats::parse_training_log(bytes, "job.log");
    const formats::RunsTable runs = formats::runs_table({&log, 1}, {});
    if (formats::parse_table(formats::csv_text(runs.table), "runs.csv").rows.size() != runs.table.rows.size())
        throw std::logic_error{"a table of runs changes when it is written and read"};
}

/// The file may extend any built-in family.
void family(std::string_view bytes) {
    std::vector<FamilySource> sources;
    for (const formats::BuiltinRules& rules : formats::builtin_rules())
        sources.push_back({rules.source, rules.toml, true});
    sources.push_back({"family.toml", bytes});
    parse_families(sources);
}

}  // namespace

std::span<const Entry> entries() {
    static const std::array all{
        Entry{"pickle", pickle},
        Entry{"torch", torch_file},
        Entry{"torch-checkpoint", torch_checkpoint},
        Entry{"state", state_tree},
        Entry{"safetensors", safetensors},
        Entry{"safetensors-index", member<indexed, index>},
        Entry{"config", member<hf, config>},
        Entry{"dcp-metadata", member<dcp, metadata>},
        Entry{"dcp-file", member<dcp, distcp>},
        Entry{"torch_dist-metadata", member<torch_dist, iteration_metadata>},
        Entry{"torch_dist-file", member<torch_dist, iteration_distcp>},
        Entry{"torch_dist-common", member<torch_dist, common>},
        Entry{"torch_dist-kind", member<torch_dist, kind>},
        Entry{"torch_dist-tracker", member<torch_dist, tracker>},
        Entry{"zarr-array", member<zarr, zarr_array>},
        Entry{"megatron-model", member<rank_files, rank_model>},
        Entry{"megatron-optimizer", member<rank_files, rank_optimizer>},
        Entry{"deepspeed-model", member<mpu, module>},
        Entry{"deepspeed-model3", member<zero3, module3>},
        Entry{"deepspeed-optimizer", member<zero2, partition>},
        Entry{"deepspeed-optimizer3", member<zero3, partition>},
        Entry{"deepspeed-universal", member<universal, state>},
        Entry{"deepspeed-universal-model", member<universal, universal_module>},
        Entry{"deepspeed-recut", recut<zero2, partition>},
        Entry{"deepspeed-recut3", recut<zero3, partition>},
        Entry{"deepspeed-recut-model", recut<zero2, module>},
        Entry{"hdf5", hdf5},
        Entry{"gguf", gguf},
        Entry{"held", held},
        Entry{"plan", plan},
        Entry{"hosts", hosts},
        Entry{"layout", layout},
        Entry{"layout-toml", layout_toml},
        Entry{"family", family},
        Entry{"trace", trace},
        Entry{"speeds", speeds},
        Entry{"cluster", cluster_file},
        Entry{"models", models_file},
        Entry{"outages", outages_file},
        Entry{"events", events_file},
        Entry{"runs", runs},
        Entry{"columns", columns},
        Entry{"hardware", hardware},
        Entry{"throughput-model", throughput_model},
        Entry{"gpu-profile", gpu_profile},
        Entry{"assignment", assignment},
        Entry{"training-log", training_log},
    };
    return all;
}

}  // namespace tpx::fuzz
