// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"
#include "cmd/profile/named_model.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

struct ProfileFitOptions : TechniqueOptions, NamedModelOptions {
    std::string runs, columns, output;
    Integer suggest, hold_out;
    bool drop_outliers = false;
};

struct ProfileReadOptions {
    std::vector<std::string> logs;
    std::string model, gpu, plan, placement, output;
    Integer gpus, per_host, batch, sequence;
};

struct ProfilePredictOptions : TechniqueOptions, NamedModelOptions {
    std::string plan, placement, curve, html, svg;
    Integer batch, cpus, best, per_host;
};

struct ProfileHeteroOptions {
    std::vector<std::string> profiles, gpus, shares;
    std::string output;
    Decimal communication;
    Integer batch;
};

struct ProfileHardwareOptions {
    std::string output, compare, folder, hosts, html, show;
    Integer seconds;
    std::vector<std::string> skip;
};

void run_profile_read(const ProfileReadOptions& options, Output& out);
void run_profile_fit(const ProfileFitOptions& options, Output& out);
void run_profile_predict(const ProfilePredictOptions& options, Output& out);
void run_profile_hetero(const ProfileHeteroOptions& options, Output& out);
void run_profile_hardware(const ProfileHardwareOptions& options, Output& out);

/// Prints a note if the model in the file at `path` lacks sizes that predictions depend on.
void note_missing_sizes(const ModelSize& size, const std::string& path, Output& out);

/// Describes `tpx profile` and its commands.
void add_profile(Cli& cli);

/// A whole number from `least` to `most`, as a part of the value of `option`. Throws Error (usage) that names `option`.
int whole_number(std::string_view text, std::string_view option, int least, int most);

}  // namespace tpx::cli
