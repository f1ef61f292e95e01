// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/open_step_file.hpp"

#include "formats/deepspeed/step_files.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <string>

namespace tpx::formats::deepspeed {
namespace {

/// The name under which torch.save wrote the file at `path`, without its extension; "archive" if it did not know it.
std::string saved_name(const std::filesystem::path& path) {
    const Fd fd = open_file(path, O_RDONLY);
    return torch::Zip{{.fd = &fd, .path = path, .offset = 0, .length = size_of_file(path)}}.root();
}

}  // namespace

torch::Archive open_step_file(const std::filesystem::path& path) {
    torch::Archive archive = torch::Archive::open(path);
    if (archive.is_stream()) return archive;
    const std::string saved = saved_name(path) + ".pt";
    const auto written = parse_file_name(saved);
    const auto name = parse_file_name(path.filename().string());
    if (written && name && *written != *name)
        throw failure("{}: was saved as {}; rank files were swapped or copied", path.string(), saved);
    return archive;
}

}  // namespace tpx::formats::deepspeed
