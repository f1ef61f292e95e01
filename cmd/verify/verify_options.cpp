// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/verify/ignored_roles.hpp"
#include "cmd/verify/verify.hpp"

#include <memory>

namespace tpx::cli {

void add_verify(Cli& cli) {
    auto options = std::make_shared<VerifyOptions>();
    Command& command = cli.command("verify", "Check a checkpoint, or compare two in any layout and format");
    command.purpose(
        "With A: reads all data and checks stored checksums, plus tpx.digests.json if present. With A and B: compares "
        "tensors, optimizer settings, step, schedulers, RNG states, arguments and counters, in any layouts and "
        "formats. The exit status is 3 if something differs, is missing on one side or cannot be compared.");
    command.positional("A", &options->first, "Checkpoint to check").required().file();
    command.positional("B", &options->second, "Checkpoint to compare with A").file();
    command.flag("--write", &options->write, "Record digests of A in tpx.digests.json, for later checks")
        .details(
            "The file is written next to the checkpoint's metadata: in A, or in A/iter_NNNNNNN if A is the root folder "
            "of a Megatron run; if A is a file, it is A.tpx.digests.json. Every later tpx verify A checks A against "
            "it.");
    command.flag("--weights-only", &options->weights_only, "Compare weights only");
    command.option("--ignore", &options->ignore, "ROLE,...", "Roles to ignore")
        .any_of({ignorable_roles.begin(), ignorable_roles.end()})
        .details(
            "See ROLES below. Repeatable. A note counts what was ignored. Layouts with different ranks have different "
            "RNG states: use "
            "--ignore rng to compare everything else.");
    command.exclusive({"--weights-only", "--ignore"});
    for (const char* alone : {"--weights-only", "--ignore", "--dtype"}) command.exclusive({"--write", alone});
    command.flag("--dtype", &options->dtype, "Compare values even if dtypes differ")
        .details("The values of A are rounded to the dtype of B, as tpx reshard --dtype does.");
    command
        .flag("--masters", &options->masters,
              "Check that master weights round to the weights, and that optimizer state is consistent")
        .details(
            "Master weights rounded to the dtype of the weights must equal the weights; every parameter must have "
            "moments of its shape, all values finite and exp_avg_sq not negative; all steps must be equal. This "
            "detects the optimizer state of another model and state assigned to the wrong parameter. Tensors that do "
            "not match are listed with the first element that differs. Digests are computed only if B is given.");
    command.exclusive({"--masters", "--write"});
    command.flag("--tensors", &options->tensors, "List every tensor with its digest");
    add_limit_options(
        command, *options,
        "If the metadata of the checkpoint, such as the names, shapes and places of a million tensors, do "
        "not fit, the command fails before it reads tensors and names a sufficient limit.");
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx verify ckpt", "is the checkpoint complete and undamaged?");
    command.example("tpx verify ckpt iter_0001000", "do both contain the same state?");
    command.example("tpx verify ckpt --write", "record digests; later runs of tpx verify ckpt check them");
    command.run([options](Output& out) { run_verify(*options, out); });
}

}  // namespace tpx::cli
