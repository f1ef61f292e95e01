// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/reshard/reshard.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_reshard_output(Command& command, ReshardOptions& options) {
    command.option("--plan", &options.plan, "FILE", "Execute the plan in FILE instead of making one")
        .file()
        .details(
            "FILE is written by tpx plan --output and contains the target layout and format; see tpx-plan(5). The plan "
            "is checked first. If it was made for another checkpoint than CKPT, or if this version of tpx would "
            "arrange the output differently, the plan is rejected with exit status 3.");
    command
        .option("--dtype", &options.dtype, "DTYPE", "Convert weights to DTYPE: f64, f32, f16, bf16 or f8e4m3:block128")
        .suggestions({"f64", "f32", "f16", "bf16", "f8e4m3:block128", "f8e4m3:unscaled", "f8e5m2:unscaled"})
        .default_value("as stored")
        .details(
            "PyTorch's names, such as bfloat16, are accepted. Values are rounded to nearest, ties to even; a finite "
            "value that would become infinite is an error. DTYPE:unscaled casts to or from FP8 without scales: "
            "f8e4m3:unscaled and f8e5m2:unscaled write plain FP8 (weights only), and bf16:unscaled, for example, reads "
            "FP8 weights as they are.");
    command.option("--drop", &options.drop, "WHAT", "State to omit")
        .choices({"optimizer"})
        .details(
            "optimizer: write weights only. If a parameter is stored only as a master weight, as with ZeRO 3, the "
            "weight is rounded from the master weight.");
    command.flag("--masters", &options.masters, "With --drop optimizer: write the fp32 master weights as weights")
        .details("--dtype converts them.");
    command.option("--merge-adapter", &options.merge_adapter, "DIR", "Merge the LoRA or DoRA adapter in DIR (PEFT)")
        .file()
        .details(
            "DIR contains adapter_config.json and adapter_model.safetensors. The merged weights have the dtype of CKPT "
            "and the values that merge_and_unload() of PEFT computes on a CPU; --dtype converts them afterwards. CKPT "
            "must have Hugging Face names and no optimizer state.");
    command.option("--shard-size", &options.shard_size, "SIZE", "Maximum size of each safetensors file")
        .default_value("5GB")
        .details("A tensor larger than SIZE is written to a separate file; tensors are never split.");
    command.flag("--allow-missing", &options.allow_missing, "Fill missing parts of CKPT with zeros")
        .details("By default, a checkpoint with missing parts is rejected and the parts are listed.");
    command.flag("--force", &options.force, "Replace OUT if it is a checkpoint or an empty folder");
    command.flag("--restart", &options.restart, "Remove unfinished outputs of earlier runs instead of continuing")
        .details("If another run is still writing OUT, tpx ends with an error and does not disturb it.");
    command.flag("--clean", &options.clean, "Remove unfinished outputs of OUT, list them, and write nothing");
}

}  // namespace

void add_reshard(Cli& cli) {
    auto options = std::make_shared<ReshardOptions>();
    Command& command = cli.command("reshard", "Convert a checkpoint to another layout, format or naming");
    command.purpose(
        "Reads CKPT in any layout and format and writes the same training state to OUT. Under mpirun or srun the "
        "processes share the work; any number of processes works with any layout. OUT is created under a temporary "
        "name and renamed when it is complete and on disk.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint to read: a folder, a file or hold:NAME")
        .required()
        .file();
    command.positional("OUT", &options->output, "Folder to create; a file with --format torch or torch-legacy")
        .required()
        .file();
    add_target_options(command, *options, {"--plan", "--clean"});
    add_reshard_output(command, *options);
    command.group("Execution options");
    command.flag("-n,--dry-run", &options->dry_run, "Show what would be written, and write nothing");
    command.flag("--verify", &options->verify, "Check CKPT, then compare OUT, read back from disk, with CKPT")
        .details(
            "Before the conversion, CKPT is read once more to check the CRC-32 that PyTorch and Megatron store per "
            "tensor, if there are any. Afterwards, OUT is synchronized, dropped from the page cache and read back. Its "
            "tensors must have the digests that were computed in memory when they were moved, after any conversion to "
            "another dtype; its headers, configuration and copied files must contain the bytes that were written; "
            "its non-tensor values, such as arguments, steps and RNG states, must equal those of CKPT as far as OUT "
            "stores them. Tensors of which CKPT contains copies, and all tensors if the run continues an earlier one, "
            "are read from CKPT again; the copies must be equal. The output, or the key verified with --json, reports "
            "what was verified, and whether OUT is on a file system in memory, such as tmpfs.");
    add_limit_options(command, *options);
    command.option("--hold", &options->hold, "SECONDS", "Also hold OUT in memory for SECONDS; see tpx-hold(1)")
        .details(
            "When OUT is complete, tpx hold reads it and keeps the state of each rank in memory, as tpx-hold(1) "
            "describes; with none, until it is taken or released. On several hosts, process K of the job must run on "
            "the host of rank K of the new layout.");
    command.option("--hold-name", &options->hold_name, "NAME", "With --hold: the name of the held state")
        .default_value("the last part of OUT");
    command.option("--hold-device", &options->hold_device, "D", "With --hold: memory in which the tensors are held")
        .choices({"auto", "cuda", "host"})
        .default_value("host")
        .details("See --device in tpx-hold(1).");
    command.flag("--stages", &options->stages, "Print the time of each stage: read, copy, write and others")
        .details(
            "Times are means over the threads. With --hardware, the table contains the lower bounds of reading and "
            "writing.");
    command.option("--trace", &options->trace, "FILE", "Write a timeline of all threads, for ui.perfetto.dev")
        .file()
        .details(
            "FILE is in the JSON format of chrome://tracing. It is also written when a run that had begun to write "
            "fails or is stopped, except by --patience.");
    add_log_option(command, *options);
    add_hardware_option(command, options->hardware,
                        "Transfer rates (written by tpx profile hardware); prints a lower bound on the time");
    for (const char* decided : {"--to", "--format", "--dialect", "--dtype", "--shard-size", "--allow-missing", "--drop",
                                "--masters", "--merge-adapter"})
        command.exclusive({"--plan", decided});
    command.exclusive({"--merge-adapter", "--allow-missing"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx reshard hf out --to tp=2,pp=2 --format torch_dist", "Hugging Face to Megatron-core");
    command.example("tpx reshard ckpt out --to tp=1 --format safetensors --drop optimizer",
                    "Megatron-core to Hugging Face, weights only");
    command.example("mpirun -n 4 tpx reshard zero out --to dp=2",
                    "DeepSpeed ZeRO, from any number of ranks to 2, with 4 processes");
    command.run([options](Output& out) { run_reshard(*options, out); });
}

}  // namespace tpx::cli
