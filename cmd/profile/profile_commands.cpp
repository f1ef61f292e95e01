// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/model_file.hpp"
#include "lib/core/error.hpp"
#include "lib/model/techniques.hpp"

#include <charconv>
#include <memory>

namespace tpx::cli {
namespace {

void add_hardware(Command& profile) {
    auto options = std::make_shared<ProfileHardwareOptions>();
    Command& command = profile.subcommand("hardware", "Measure hosts, disks, links and GPUs");
    command.purpose(
        "Measures memory, disk, network and GPU transfer rates of the hosts on which it runs, and writes a file for "
        "the option --hardware of tpx plan, reshard and simulate. Run it under mpirun with at least one process per "
        "host.");
    command.group("Measurement options");
    command.option("--seconds", &options->seconds, "S", "Approximate duration").range(1, 3600).default_value("20");
    command.option("--folder", &options->folder, "DIR", "Folder on the disk to measure")
        .default_value("the current folder")
        .file()
        .details("Files of up to 2 GiB are written there and removed.");
    command.option("--hosts", &options->hosts, "HOSTS", "Cluster file with switch topology")
        .file()
        .details(
            "The key switch of each host names its switch; see tpx-hardware(5). The default is what Slurm reports.");
    command.option("--skip", &options->skip, "PART", "Part not to measure; repeatable")
        .choices({"memory", "disk", "links", "gpus"});
    command.group("Output options");
    command.option("-o,--output", &options->output, "FILE", "Write the hardware file, for --hosts and --hardware")
        .file();
    command.option("--html", &options->html, "FILE", "Write an HTML page to FILE").file();
    command.option("--compare", &options->compare, "OLD", "List everything slower than in the hardware file OLD")
        .file()
        .details(
            "\"slower\" means more than 10 % slower and outside the spread of both measurements, or 75 % slower. The "
            "exit status is then 3.");
    command.option("--show", &options->show, "FILE", "Print the hardware file FILE and measure nothing").file();
    for (const char* other : {"--seconds", "--folder", "--hosts", "--skip"}) command.exclusive({"--show", other});
    command.common_options();
    command.example("mpirun --map-by node tpx profile hardware -o cluster.toml", "at least one process per host");
    command.example("tpx profile hardware --skip gpus --seconds 5", "this host only, quickly");
    command.example("tpx profile hardware --show cluster.toml", "print an earlier measurement");
    command.run([options](Output& out) { run_profile_hardware(*options, out); });
}

void add_read(Command& profile) {
    auto options = std::make_shared<ProfileReadOptions>();
    Command& command = profile.subcommand("read", "Convert training logs to a table of runs");
    command.purpose(
        "Reads step times, memory, execution plans and batch sizes from logs of Megatron-LM, Megatron Bridge, NeMo, "
        "torchtitan, torchtune, nanotron, LitGPT, Composer, Colossal-AI, DeepSpeed, PyTorch Lightning and "
        "Hugging Face's Trainer, or the metrics that W&B, TensorBoard, MLflow or LLaMA-Factory recorded. Prints the "
        "CSV table of runs "
        "that tpx profile fit reads: a row per log, or several if settings changed when the job restarted.");
    command.positional("LOG", &options->logs, "Training logs; - is standard input").required().file();
    command.group("Settings missing from the logs");
    command.option("--model", &options->model, "MODEL", "Name of the trained model");
    command.option("--gpu", &options->gpu, "NAME", "GPU type, such as H100");
    command.option("--gpus", &options->gpus, "N", "Number of GPUs; sets dp = N / (tp * pp * cp)").range(1, 1 << 17);
    command.option("--with", &options->plan, "PLAN", "Execution plan, such as dp=8,zero=1")
        .details("These options apply to all logs and override what the logs record.");
    command.option("--on", &options->placement, "PLACE", "GPUs on each host, such as 8+8 or 4x8");
    command.option("--per-host", &options->per_host, "N", "GPUs per host").range(1, 1024);
    command.option("--batch", &options->batch, "N", "Samples per step").range(1, 1 << 24);
    command.option("--sequence", &options->sequence, "N", "Tokens per sample").range(1, 1 << 30);
    command.exclusive({"--on", "--per-host"});
    command.exclusive({"--gpus", "--with"});
    command.group("Output options");
    command.option("-o,--output", &options->output, "FILE", "Write the table to FILE").file();
    command.common_options();
    command.example("tpx profile read *.log --model gpt2 --gpu A800 --per-host 8 -o jobs.csv", "one row per run");
    command.example("tpx profile fit jobs.csv --model gpt2.toml -o gpt2.model.toml", "then fit a model to the runs");
    command.run([options](Output& out) { run_profile_read(*options, out); });
}

constexpr std::string_view model_details =
    "A TOML file of tpx-throughput(5), which can also describe the job and its hardware; or, as in tpx-model(5), a "
    "config.json, its folder, a TOML file with the same keys, or the name of a built-in model, such as "
    "llama3-8b.";

void add_model_options(Command& command, NamedModelOptions& options) {
    command.option("--sequence", &options.sequence, "N", "Tokens per sample, if MODEL does not define them")
        .range(1, 1 << 30)
        .details(
            "If neither MODEL nor a column of the runs defines them, a config.json or a built-in model has 4096, or "
            "fewer "
            "if the model takes fewer.");
    command.option("--rules", &options.rules, "FILE", "Add model families from FILE; repeatable").file();
    command.option("--gpu-memory", &options.gpu_memory, "SIZE", "Memory of each GPU, such as 80GB")
        .default_value("the model's");
}

void add_fit(Command& profile) {
    auto options = std::make_shared<ProfileFitOptions>();
    Command& command = profile.subcommand("fit", "Fit a throughput model to measured runs");
    command.purpose(
        "Fits the throughput model of tpx-throughput(5) to measured step times of one training job under several "
        "execution plans, and reports how well the model predicts held-out runs.");
    command
        .positional("RUNS", &options->runs,
                    "Measured runs, CSV or JSON, such as the output of tpx profile read; - is standard input")
        .required()
        .file();
    command.group("Input options");
    command
        .option("--model", &options->model, "MODEL", "The trained model: a TOML file, a config.json or a built-in name")
        .required()
        .suggestions(formats::builtin_model_names())
        .file()
        .details(model_details);
    add_model_options(command, *options);
    command.option("--columns", &options->columns, "FILE", "Names of the columns in RUNS, TOML")
        .default_value("the names of tpx-throughput(5)")
        .file();
    command
        .option("--like", &options->like, "FITTED", "Prior for the fit: a fitted model of another size of the family")
        .file();
    command.flag("--drop-outliers", &options->drop_outliers, "Ignore runs that contradict the others");
    command.group("Output options");
    command.option("-o,--output", &options->output, "FILE", "Write the fitted model to FILE").file();
    command.option("--suggest", &options->suggest, "N", "Suggest N more runs to measure")
        .range(1, 100)
        .details("They are the runs that would improve the fit most. Works with fewer than 7 runs, too.");
    add_technique_options(command, *options, techniques, "plans", "With --suggest: ");
    command.option("--hold-out", &options->hold_out, "N", "Fit to N of the configurations and predict the others")
        .range(1, 10000)
        .details("The N runs are chosen as for --suggest, regardless of their times.");
    for (const char* other : {"--output", "--suggest", "--drop-outliers"}) command.exclusive({"--hold-out", other});
    command.common_options();
    command.example("tpx profile fit runs.csv --model gpt2.toml --columns columns.toml -o gpt2.model.toml",
                    "fit a model (needs at least 7 runs)");
    command.example("tpx profile fit runs.csv --model gpt2.toml --columns columns.toml --suggest 3",
                    "what to measure next");
    command.example("tpx profile fit runs.csv --model gpt2.toml --columns columns.toml --suggest 3 --without zero",
                    "what to measure next, for a trainer without ZeRO");
    command.run([options](Output& out) { run_profile_fit(*options, out); });
}

void add_predict(Command& profile) {
    auto options = std::make_shared<ProfilePredictOptions>();
    Command& command = profile.subcommand("predict", "Predict throughput and memory of execution plans");
    command.purpose(
        "Uses a model fitted by tpx profile fit to predict step time, samples per second and memory: of one execution "
        "plan (--with), of the fastest plans (--best), or for each number of GPUs (--curve).");
    command
        .positional("MODEL", &options->model,
                    "Fitted model, as tpx profile fit writes it; or a config.json or a built-in name")
        .required()
        .suggestions(formats::builtin_model_names())
        .file()
        .details(model_details);
    command.group("Model options");
    command.option("--like", &options->like, "FITTED", "A fitted model of another size, if MODEL is not fitted").file();
    add_model_options(command, *options);
    command.group("What to predict");
    command.option("--with", &options->plan, "PLAN", "Execution plan, such as dp=8,zero=1");
    command.option("--best", &options->best, "N", "List the N fastest plans that fit in memory").range(1, 100000);
    command.option("--curve", &options->curve, "RANGE", "Best throughput for each number of GPUs, such as gpus=1..64");
    add_technique_options(command, *options, techniques, "plans", "With --best or --curve: ");
    command.option("--on", &options->placement, "PLACE", "GPUs on each host, such as 8+8 or 4x8")
        .details("With --with, the default is one host.");
    command.option("--per-host", &options->per_host, "N", "With --curve: GPUs per host")
        .range(1, 1024)
        .default_value("8");
    command.option("--batch", &options->batch, "N", "Samples per step").range(1, 1 << 24).default_value("the model's");
    command.option("--cpus", &options->cpus, "N", "CPU threads per GPU, for offloaded optimizers")
        .range(1, 4096)
        .default_value("the model's");
    command.group("Output options");
    command.option("--html", &options->html, "FILE", "Write an HTML page to FILE").file();
    command.option("--svg", &options->svg, "FILE", "Write the curve as SVG to FILE").file();
    command.exclusive({"--with", "--best", "--curve"});
    command.exclusive({"--curve", "--on"});
    command.common_options();
    command.example("tpx profile predict gpt2.model.toml --best 5 --on 2x8", "the fastest plans on 2 hosts of 8 GPUs");
    command.example("tpx profile predict gpt2.model.toml --best 5 --on 8 --without zero,offload", "without ZeRO");
    command.example("tpx profile predict gpt2.model.toml --with dp=8 --on 8", "one plan");
    command.example("tpx profile predict gpt2.model.toml --curve gpus=1..64", "throughput by number of GPUs");
    command.example("tpx profile predict llama3-8b --best 5 --on 2x8 --batch 256 --gpu-memory 80GB",
                    "without measurements");
    command.run([options](Output& out) { run_profile_predict(*options, out); });
}

void add_hetero(Command& profile) {
    auto options = std::make_shared<ProfileHeteroOptions>();
    Command& command = profile.subcommand("hetero", "Assign virtual nodes to GPUs of different types");
    command.purpose(
        "Splits a batch over GPU types and virtual nodes to minimize step time, from measured samples per second of "
        "each type.");
    command.group("Input options");
    command
        .option("--profile", &options->profiles, "T=FILE",
                "Measured samples per second of one GPU of type T; repeatable")
        .required()
        .details("FILE has one line per batch size.");
    command.option("--count", &options->gpus, "T=N", "Number of GPUs of type T; repeatable").required({"--assign"});
    command.option("--batch", &options->batch, "N", "Samples per step").range(1, 1 << 24).required({"--assign"});
    command
        .option("--assign", &options->shares, "T=GxVxB",
                "Predict this assignment: G GPUs of type T, each with V virtual nodes of B samples; repeatable")
        .details("Replaces --count and --batch.");
    command.option("--communication", &options->communication, "S", "Communication time per step in seconds")
        .default_value("0");
    command.group("Output options");
    command.option("-o,--output", &options->output, "FILE", "Write the assignment to FILE").file();
    command.common_options();
    command.example("tpx profile hetero --profile V100=v100.txt --count V100=4 --batch 512", "one type of GPU");
    command.example(
        "tpx profile hetero --profile V100=v100.txt --profile P100=p100.txt --count V100=2 --count P100=2 --batch 1024",
        "two types of GPUs");
    command.example(
        "tpx profile hetero --profile V100=v100.txt --profile P100=p100.txt --assign V100=2x8x256 --assign "
        "P100=2x4x256",
        "a given assignment");
    command.run([options](Output& out) { run_profile_hetero(*options, out); });
}

}  // namespace

int whole_number(std::string_view text, std::string_view option, int least, int most) {
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        throw Error{Exit::usage, "{}: '{}' is not a whole number from {} to {}", option, text, least, most};
    return value;
}

void add_profile(Cli& cli) {
    Command& profile = cli.command("profile", "Measure hardware; fit and use a throughput model");
    add_hardware(profile);
    add_read(profile);
    add_fit(profile);
    add_predict(profile);
    add_hetero(profile);
    profile.purpose(
        "Measures the hardware, fits a throughput model to a few measured runs, and predicts the step time of "
        "execution plans that were not measured.");
    profile.example("tpx profile fit runs.csv --model gpt2.toml --columns columns.toml -o gpt2.model.toml",
                    "fit a model (needs at least 7 runs)");
}

}  // namespace tpx::cli
