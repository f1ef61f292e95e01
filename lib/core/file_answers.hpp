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

/// What the file system told one process while it opened a checkpoint, so that other processes that open the same one
/// need not ask. While one is current, the functions of path.hpp and file.hpp that read ask it first; it either
/// records what they find, or knows what another one has recorded. What it does not know is asked of the file system.
/// Any thread may ask, but a FileAnswers lives on one.
class FileAnswers {
public:
    enum class Question : std::uint8_t { status, link_status, entries, real_path, length, size, open, bytes, survey };

    /// Records. Paths in `root` are known by what follows it, as it may have other names in other processes; an empty
    /// root contains none.
    explicit FileAnswers(const std::filesystem::path& root);

    /// Knows what the FileAnswers that made `packed` has recorded; `root` is where that process had its own.
    FileAnswers(const std::filesystem::path& root, std::string_view packed);

    ~FileAnswers();
    FileAnswers(const FileAnswers&) = delete;
    FileAnswers& operator=(const FileAnswers&) = delete;

    /// The one that lives, or null.
    static FileAnswers* current();

    /// To be called in a forked process: nothing is current in it from now on.
    static void forget();

    bool records() const { return records_; }

    /// All that was recorded.
    std::string packed() const;

    /// The answer to a question about `path`, or about `size` bytes at `offset` of it: what is known, or what `ask`
    /// returns. An Error of `ask` is an answer, too.
    std::string answer(Question question, const std::filesystem::path& path, std::uint64_t offset, std::uint64_t size,
                       const std::function<std::string()>& ask);

    /// Says that descriptor `fd` is the file at `path`, opened although no process but the recording one opens it.
    void set_descriptor(int fd, const std::filesystem::path& path);
    /// The path of such a descriptor.
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
    /// Where an answer is among all bytes.
    struct Place {
        std::uint64_t begin = 0;
        std::uint64_t size = 0;
        int failed = 0;  ///< the Exit of an Error, whose words the answer is; 0 if it is none
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

/// What `ask` returns about `path`, or what a current FileAnswers knows of it.
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
