// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/open_step_file.hpp"

#include "formats/deepspeed/step_files.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tpx::formats::deepspeed {
namespace {

/// The name under which torch.save wrote the file at `path`, without its extension; "archive" if it did not know it.
std::string saved_name(const std::filesystem::path& path) {
    const Fd fd = open_file(path, O_RDONLY);
    return torch::Zip{{.fd = &fd, .path = path, .offset = 0, .length = size_of_file(path)}}.root();
}

/// True if both names are of the same kind of file, but of different ranks or experts. Users copy files of layers to
/// duplicate layers.
bool is_other_rank(const FileName& a, const FileName& b) {
    if (a.kind != b.kind) return false;
    return a.kind == FileName::Kind::layer ? a.mp != b.mp : a != b;
}

}  // namespace

torch::Archive open_step_file(const std::filesystem::path& path, std::vector<std::string>& notes) {
    torch::Archive archive = torch::Archive::open(path);
    if (archive.is_stream()) return archive;
    const std::string saved = saved_name(path) + ".pt";
    const auto written = parse_file_name(saved);
    const std::string file = path.filename().string();
    const auto name = parse_file_name(file);
    if (!written || !name || *written == *name) return archive;
    if (is_other_rank(*written, *name))
        throw failure(
            "{}: was saved as {}; rank files were swapped or copied: rename it to {}, or restore the original",
            path.string(), saved, saved);
    std::string note = fmt::format("'{}' was saved as '{}'; reading it as '{}'", file, saved, file);
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    return archive;
}

}  // namespace tpx::formats::deepspeed
