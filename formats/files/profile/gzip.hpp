// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tpx::formats {

/// Whether a file that starts with `bytes` is compressed with gzip.
bool is_gzip(std::string_view bytes);

/// Decompresses a gzip file chunk by chunk; the file may consist of several gzip files, one after another.
class GzipInflater {
public:
    /// `file` is its name in messages.
    explicit GzipInflater(std::string_view file);
    GzipInflater(const GzipInflater&) = delete;
    GzipInflater& operator=(const GzipInflater&) = delete;
    ~GzipInflater();

    /// Decompresses the next chunk of the file and passes the text to `sink`, at most 64 KiB at a time. Throws Error if
    /// the file is damaged.
    void inflate(std::string_view piece, const std::function<void(std::string_view)>& sink);
    /// Throws Error if the file is truncated.
    void finish() const;

private:
    struct Stream;
    std::string file_;
    std::unique_ptr<Stream> stream_;
};

/// All that the gzip file `bytes` contains. Throws Error if it is damaged or truncated, or has more than `most` bytes.
std::string inflate_gzip(std::string_view bytes, std::string_view file, std::size_t most);

}  // namespace tpx::formats
