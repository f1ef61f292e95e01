// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/archive_forms.hpp"

#include "formats/encodings/torch/tensor_blobs.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/file_questions.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/packing.hpp"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tpx::formats {
namespace {

std::string packed(const ArchiveForms& forms) {
    std::string bytes;
    pack(bytes, std::uint64_t{forms.cause.size()});
    bytes += forms.cause;
    pack(bytes, std::uint64_t{forms.forms.size()});
    for (const torch::StoredTensor& form : forms.forms) {
        pack(bytes, form.dtype);
        pack(bytes, form.shape.size());
        for (const Index size : form.shape) pack(bytes, size);
        for (const Index stride : form.strides) pack(bytes, stride);
        pack(bytes, form.offset);
    }
    for (const std::uint32_t form : forms.of_archives) pack(bytes, form);
    return bytes;
}

ArchiveForms unpacked(std::string_view bytes) {
    ArchiveForms forms;
    const auto size = unpack<std::uint64_t>(bytes);
    forms.cause = bytes.substr(0, size);
    bytes.remove_prefix(size);
    for (auto left = unpack<std::uint64_t>(bytes); left > 0; --left) {
        torch::StoredTensor& form = forms.forms.emplace_back();
        form.dtype = unpack<DType>(bytes);
        form.shape = form.strides = Shape(unpack<int>(bytes));
        for (Index& length : form.shape) length = unpack<Index>(bytes);
        for (Index& stride : form.strides) stride = unpack<Index>(bytes);
        form.offset = unpack<std::uint64_t>(bytes);
    }
    forms.of_archives.resize(bytes.size() / sizeof(std::uint32_t));
    for (std::uint32_t& form : forms.of_archives) form = unpack<std::uint32_t>(bytes);
    return forms;
}

/// Reads the archives of one file. Consecutive short archives are read together.
class ArchiveFile {
public:
    ArchiveFile(const std::filesystem::path& path, const Fd& fd) {
        range_.fd = &fd;
        range_.path = path;
        range_.ends = ends_of_one_tensor;
    }

    /// The forms of the archives at `places`, which are sorted.
    ArchiveForms read(std::span<const ArchivePlace> places) {
        ArchiveForms result;
        std::map<std::tuple<DType, Shape, Strides, std::uint64_t>, std::uint32_t> numbers;
        try {
            for (std::size_t k = 0; k < places.size(); ++k) {
                torch::StoredTensor form = read_one(places, k);
                const auto next = static_cast<std::uint32_t>(numbers.size());
                const auto [number, is_new] =
                    numbers.try_emplace({form.dtype, form.shape, form.strides, form.offset}, next);
                if (is_new) result.forms.push_back(std::move(form));
                result.of_archives.push_back(number->second);
            }
        } catch (const Error& error) {
            std::string_view cause = error.what();
            const std::string file = range_.path.string() + ": ";
            if (cause.starts_with(file)) cause.remove_prefix(file.size());
            result.cause = cause;
        }
        return result;
    }

private:
    static constexpr std::uint64_t ends_of_one_tensor = 1024;  // fewer bytes are on each side of the payload
    static constexpr std::uint64_t read_together = std::uint64_t{256} << 10;

    torch::StoredTensor read_one(std::span<const ArchivePlace> places, std::size_t k) {
        range_.offset = places[k].offset;
        range_.length = places[k].length;
        torch::StoredTensor form = blobs_.read(range_, range_.is_short() ? bytes_of(places, k) : "");
        form.offset -= range_.offset;
        return form;
    }

    /// The bytes of a short archive.
    std::string_view bytes_of(std::span<const ArchivePlace> places, std::size_t k) {
        const auto end_of = [&](std::size_t i) { return places[i].offset + places[i].length; };
        if (places[k].offset < begin_ || end_of(k) > begin_ + bytes_.size()) {
            std::uint64_t end = end_of(k);
            for (std::size_t next = k + 1; next < places.size(); ++next) {
                if (end_of(next) - places[k].offset > read_together) break;
                end = std::max(end, end_of(next));
            }
            try {
                read_bytes(places[k].offset, end);
            } catch (const Error&) {  // perhaps only a later archive is out of range
                read_bytes(places[k].offset, end_of(k));
            }
        }
        return std::string_view{bytes_}.substr(places[k].offset - begin_, places[k].length);
    }

    void read_bytes(std::uint64_t begin, std::uint64_t end) {
        bytes_.resize(end - begin);
        read_at(*range_.fd, begin, std::as_writable_bytes(std::span{bytes_}), range_.path);
        begin_ = begin;
    }

    torch::FileRange range_;
    torch::TensorBlobs blobs_;
    std::uint64_t begin_ = 0;
    std::string bytes_;
};

ArchiveForms read_forms(const FileArchives& file) {
    const Fd fd = open_file(file.path, O_RDONLY);
    return ArchiveFile{file.path, fd}.read(file.places);
}

/// Same as read_forms(), but `answers` records the forms instead of the bytes that they were parsed from, so that less
/// data is sent to other processes.
ArchiveForms recorded_forms(const FileArchives& file, FileAnswers& answers) {
    const Fd fd = open_file(file.path, O_RDONLY);
    Fingerprint print;
    for (const ArchivePlace& place : file.places) {
        print.add(place.offset);
        print.add(place.length);
    }
    const auto question = FileAnswers::Question::archives;
    return unpacked(answers.answer(question, file.path, print.value(), file.places.size(), [&] {
        const FileAnswers::Pause pause;
        // When answers are replayed, `fd` is /dev/null.
        if (!answers.records()) return packed(read_forms(file));
        return packed(ArchiveFile{file.path, fd}.read(file.places));
    }));
}

std::optional<std::vector<ArchiveForms>> forms_from_other_processes(std::span<const FileArchives> files) {
    std::vector<FileQuestion> questions;
    for (const FileArchives& file : files) {
        std::string text;
        for (const ArchivePlace& place : file.places) pack(text, place);
        questions.push_back({file.path, std::move(text)});
    }
    const auto answers = ask_other_processes(questions);
    if (!answers) return std::nullopt;
    std::vector<ArchiveForms> forms;
    for (const std::string& answer : *answers) forms.push_back(unpacked(answer));
    return forms;
}

}  // namespace

std::vector<ArchiveForms> forms_of(std::span<const FileArchives> files) {
    if (auto forms = forms_from_other_processes(files)) return std::move(*forms);
    FileAnswers* answers = FileAnswers::current();
    std::vector<ArchiveForms> forms;
    for (const FileArchives& file : files) {
        forms.push_back(answers != nullptr ? recorded_forms(file, *answers) : read_forms(file));
        if (!forms.back().cause.empty()) break;
    }
    return forms;
}

std::string answer_archive_question(const std::filesystem::path& path, std::string_view question) {
    FileArchives file{path, {}};
    file.places.resize(question.size() / sizeof(ArchivePlace));
    for (ArchivePlace& place : file.places) place = unpack<ArchivePlace>(question);
    return packed(read_forms(file));
}

}  // namespace tpx::formats
