// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/gpu_profile_file.hpp"

#include "formats/files/profile/table.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::formats {

std::vector<GpuProfile::Point> parse_gpu_profile(std::string_view text, std::string_view file) {
    std::vector<GpuProfile::Point> points;
    constexpr std::string_view blanks = " \t\r,";
    for (std::size_t line = 1; !text.empty(); ++line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view words = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        words = words.substr(0, words.find('#'));
        words.remove_prefix(std::min(words.find_first_not_of(blanks), words.size()));
        words = words.substr(0, words.find_last_not_of(blanks) + 1);
        if (words.empty()) continue;
        try {
            const std::size_t gap = words.find_first_of(blanks);
            if (gap == words.npos) throw failure("a batch size and examples per second were expected");
            const double batch = parse_number(words.substr(0, gap));
            const double rate = parse_number(words.substr(words.find_first_not_of(blanks, gap)));
            if (batch < 1 || batch > 1 << 24 || batch != std::floor(batch))
                throw failure("{:g} is not a batch size", batch);
            if (rate <= 0) throw failure("{:g} examples per second cannot be", rate);
            const auto same = std::ranges::find(points, static_cast<int>(batch), &GpuProfile::Point::batch);
            if (same != points.end()) throw failure("batch size {:g} is there twice", batch);
            points.push_back({static_cast<int>(batch), rate});
        } catch (Error& error) {
            error.prepend(fmt::format("{}:{}", file, line));
            throw;
        }
    }
    if (points.empty()) throw failure("{}: it has no batch sizes", file);
    return points;
}

std::string assignment_text(std::span<const GpuProfile> profiles, const HeteroAssignment& assignment) {
    std::string text = fmt::format("# tpx-throughput(5): written by tpx profile hetero\nbatch = {}\nseconds = {}\n",
                                   assignment.batch, assignment.seconds);
    for (const WorkShare& share : assignment.shares)
        text += fmt::format(
            "\n[[gpus]]\ntype = \"{}\"\ncount = {}\nvirtual_nodes = {}       # of each GPU\n"
            "virtual_node_batch = {}  # examples\ngradient_weight = {}  # of each GPU's mean gradient\n",
            profiles[share.type].name, share.gpus, share.virtual_nodes, share.virtual_node_batch,
            assignment.gradient_weight(share));
    return text;
}

}  // namespace tpx::formats
