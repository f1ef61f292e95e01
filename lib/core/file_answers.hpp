// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace tpx {

/// The answers of the file system to one process that opens a checkpoint, so that other processes can open the same
/// checkpoint without asking the file system again. While a FileAnswers is current, the reading functions of path.hpp
/// and file.hpp ask it first. One that records passes each question to the file system and records the answer; one that
/// was made from recorded answers returns them, and asks the file system only what they do not contain. Any thread may
/// ask. At most one FileAnswers exists at a time.
class FileAnswers {
public:
    enum class Question : std::uint8_t {
        status,
        link_status,
        entries,
        real_path,
        length,
        size,
        open,
        bytes,
        survey,
        archives
    };

    /// Records answers. Paths below `root` are recorded relative to it, because its path may differ between processes;
    /// no path is below an empty root.
    explicit FileAnswers(const std::filesystem::path& root);

    /// Returns the recorded answers in `packed`; `root` is this process's path of the folder that was the recorder's
    /// root.
    FileAnswers(const std::filesystem::path& root, std::string packed);

    ~FileAnswers();
    FileAnswers(const FileAnswers&) = delete;
    FileAnswers& operator=(const FileAnswers&) = delete;

    /// The FileAnswers that exists, or null.
    static FileAnswers* current();

    /// While a Pause exists, current() is null on this thread: for an `ask` that reads many times to compute one
    /// answer.
    class Pause {
    public:
        Pause();
        ~Pause();
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;

    private:
        bool before_;
    };

    /// Call it in a forked process: there, current() is null from now on.
    static void forget();

    bool records() const { return records_; }

    /// Moves all recorded answers out, for the second constructor; call it last. Their size is about that of the
    /// metadata that was read.
    std::string take_packed();

    /// The answer to a question about `path`, or about `size` bytes at `offset` of it: a recorded answer, or the result
    /// of `ask`. An Error that `ask` throws is recorded as an answer, too.
    std::string answer(Question question, const std::filesystem::path& path, std::uint64_t offset, std::uint64_t size,
                       const std::function<std::string()>& ask);

    /// Makes reads of descriptor `fd` return bytes of the file at `path`, which only the recording process opens.
    void set_descriptor(int fd, const std::filesystem::path& path);
    /// The path that set_descriptor() gave for `fd`.
    std::optional<std::filesystem::path> path_of(int fd);

private:
    struct Key {
        Question question{};
        std::uint32_t path = 0;
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    /// The place of an answer in `bytes_`.
    struct Place {
        std::uint64_t begin = 0;
        std::uint64_t size = 0;
        int failed = 0;  ///< if the answer is the message of an Error, its Exit; otherwise 0
    };

    std::uint32_t number_of(const std::filesystem::path& path);
    std::optional<Place> find(Key& key, const std::filesystem::path& path);

    std::string root_;
    bool records_;
    std::mutex mutex_;
    std::unordered_map<std::string, std::uint32_t> numbers_;  // of paths
    std::unordered_map<Key, Place, KeyHash> places_;
    std::string bytes_;
    std::unordered_map<int, std::filesystem::path> descriptors_;
};

/// The answer of `ask` to a question about `path`, through the current FileAnswers if there is one.
template <class Ask>
auto answered(FileAnswers::Question question, const std::filesystem::path& path, const Ask& ask) {
    using Value = decltype(ask());
    static_assert(std::is_trivially_copyable_v<Value>);
    FileAnswers* answers = FileAnswers::current();
    if (answers == nullptr) return ask();
    const std::string bytes = answers->answer(question, path, 0, 0, [&] {
        const Value value = ask();
        return std::string{reinterpret_cast<const char*>(&value), sizeof value};
    });
    Value value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

}  // namespace tpx
