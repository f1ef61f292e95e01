// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <charconv>
#include <filesystem>
#include <memory>
#include <span>

namespace tpx::cli {
namespace {

void add_hardware(Command& profile) {
    auto options = std::make_shared<ProfileHardwareOptions>();
    Command& command = profile.subcommand("hardware", "Measure hosts, disks, links and GPUs, under mpirun");
    command.option("-o,--output", &options->output, "FILE", "Write the hosts to FILE, as --hosts reads them").file();
    command.option("--html", &options->html, "FILE", "Write a page for browsers to FILE").file();
    command.option("--compare", &options->compare, "OLD", "Say what is slower than the file OLD says")
        .file()
        .details(
            "Slower is by more than 10 % and by more than the spreads of both, or by half. The exit status is 3 then.");
    command.option("--seconds", &options->seconds, "S", "About how long it may take").details("The default is 20.");
    command.option("--folder", &options->folder, "DIR", "Folder whose disk is measured")
        .file()
        .details("The default is the current one. Files of at most 2 GiB are written there and removed.");
    command.option("--hosts", &options->hosts, "HOSTS", "File that says which hosts share a switch")
        .file()
        .details("By its key switch; see tpx-hardware(5). Without it, the switches are those that Slurm names.");
    command.option("--skip", &options->skip, "PART", "Leave out memory, disk, links or gpus")
        .choices({"memory", "disk", "links", "gpus"})
        .details("May be given more than once.");
    command.option("--show", &options->show, "FILE", "Show what FILE says, and measure nothing").file();
    for (const char* other : {"--seconds", "--folder", "--hosts", "--skip"}) command.exclusive({"--show", other});
    command.common_options();
    command.example("mpirun --map-by node tpx profile hardware -o cluster.toml", "a rank or more on each host");
    command.run([options](Output& out) { run_profile_hardware(*options, out); });
}

void add_fit(Command& profile) {
    auto options = std::make_shared<ProfileFitOptions>();
    Command& command = profile.subcommand("fit", "Fit a throughput model to measured runs");
    command.positional("RUNS", &options->runs, "Measured runs, CSV or JSON").required().file();
    command.option("--model", &options->model, "MODEL", "Dimensions of the model, TOML")
        .required({"--from-log"})
        .file()
        .details("See tpx-throughput(5).");
    command.option("--columns", &options->columns, "FILE", "What the columns of RUNS are called, TOML")
        .file()
        .details("See tpx-throughput(5). Without it, columns have the names that are given there.");
    command.option("-o,--output", &options->output, "FILE", "Write the fitted model to FILE").file();
    command.option("--suggest", &options->suggest, "N", "Say which N further runs would teach most")
        .details("With it, fewer than 7 runs are enough.");
    command.option("--hold-out", &options->hold_out, "N", "Fit N of the runs, and predict the others")
        .details("Which ones is decided as for --suggest, without looking at their times.");
    command.flag("--drop-outliers", &options->drop_outliers, "Fit without the runs that do not belong");
    command.flag("--from-log", &options->from_log, "RUNS is the log of one training job")
        .details(
            "Of Megatron-LM, NeMo, torchtitan, DeepSpeed, Hugging Face's Trainer or PyTorch Lightning. The run is "
            "printed "
            "as CSV, a header and a row.");
    command.option("--with", &options->plan, "PLAN", "Execution plan, such as dp=8,zero=1")
        .details("Of a log that does not say.");
    command.option("--on", &options->placement, "PLACE", "GPUs of each host, such as 8+8 or 4x8");
    command.common_options();
    command.example("tpx profile fit runs.csv --model gpt2.toml -o gpt2.model.toml", "at least 7 runs");
    command.run([options](Output& out) { run_profile_fit(*options, out); });
}

void add_predict(Command& profile) {
    auto options = std::make_shared<ProfilePredictOptions>();
    Command& command = profile.subcommand("predict", "Predict throughput and memory of execution plans");
    command.positional("MODEL", &options->model, "Fitted model, TOML").required().file();
    command.option("--with", &options->plan, "PLAN", "Execution plan, such as dp=8,zero=1");
    command.option("--best", &options->best, "N", "List the N fastest plans that fit");
    command.option("--curve", &options->curve, "RANGE", "Best throughput for each of gpus=1..64");
    command.option("--on", &options->placement, "PLACE", "GPUs of each host, such as 8+8 or 4x8")
        .details("With --with, one host is the default.");
    command.option("--per-host", &options->per_host, "N", "GPUs of each host of a curve").details("The default is 8.");
    command.option("--batch", &options->batch, "N", "Samples of a step").details("The default is the model's.");
    command.option("--html", &options->html, "FILE", "Write the curve to FILE, for browsers").file();
    command.option("--svg", &options->svg, "FILE", "Draw the curve to FILE").file();
    command.exclusive({"--with", "--best", "--curve"});
    command.common_options();
    command.example("tpx profile predict gpt2.model.toml --best 5 --on 2x8", "plans for 2 hosts of 8 GPUs");
    command.run([options](Output& out) { run_profile_predict(*options, out); });
}

void add_hetero(Command& profile) {
    auto options = std::make_shared<ProfileHeteroOptions>();
    Command& command = profile.subcommand("hetero", "Deal virtual nodes to different kinds of GPUs");
    command.option("--profile", &options->profiles, "T=FILE", "Examples per second of one GPU of type T")
        .required()
        .details("A line for each batch size. May be given more than once.");
    command.option("--count", &options->gpus, "T=N", "How many GPUs of type T there are")
        .required()
        .details("May be given more than once.");
    command.option("--batch", &options->batch, "N", "Samples of a step").required();
    command.option("--communication", &options->communication, "S", "Seconds that each step communicates")
        .details("The default is 0.");
    command.option("-o,--output", &options->output, "FILE", "Write the assignment to FILE").file();
    command.common_options();
    command.example("tpx profile hetero --profile V100=v100.txt --count V100=4 --batch 512", "one kind; add others");
    command.run([options](Output& out) { run_profile_hetero(*options, out); });
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
    const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    write_at(fd, 0, std::as_bytes(std::span{text}), path);
}

void check_writable(const std::string& path) {
    const bool is_new = !std::filesystem::exists(path);
    open_file(path, O_WRONLY | O_CREAT);
    if (is_new) std::filesystem::remove(path);
}

int whole_number(std::string_view text, std::string_view option, int standard, int least, int most) {
    if (text.empty()) return standard;
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw Error{Exit::usage, "{}: '{}' is no whole number from {} to {}", option, text, least, most};
    return value;
}

void add_profile(Cli& cli) {
    Command& profile = cli.command("profile", "Measure hardware, fit and apply a throughput model");
    add_hardware(profile);
    add_fit(profile);
    add_predict(profile);
    add_hetero(profile);
    profile.example("tpx profile fit runs.csv --model gpt2.toml -o gpt2.model.toml", "at least 7 runs");
}

}  // namespace tpx::cli
