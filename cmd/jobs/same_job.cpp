// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/same_job.hpp"

#include "lib/core/crc.hpp"
#include "lib/core/fingerprint.hpp"

#include <span>

namespace tpx::cli {
namespace {

std::string text(const Fingerprint& print) { return fmt::format("digest {:016x}", print.value()); }

void add(Fingerprint& print, const Strides& strides) {
    print.add(static_cast<std::uint64_t>(strides.size()));
    for (Index stride : strides) print.add(static_cast<std::uint64_t>(stride));
}

void add(Fingerprint& print, std::span<const Tensor> tensors) {
    print.add(tensors.size());
    for (const Tensor& tensor : tensors) {
        print.add(tensor.name);
        print.add(name(tensor.dtype));
        print.add(whole(tensor.shape));
    }
}

void add(Fingerprint& print, const Piece& piece) {
    for (std::uint64_t number :
         {std::uint64_t{piece.tensor}, std::uint64_t{piece.file}, piece.offset, static_cast<std::uint64_t>(piece.rank)})
        print.add(number);
    print.add(piece.box);
    add(print, piece.strides);
}

void add(Fingerprint& print, std::span<const Piece> pieces) {
    print.add(pieces.size());
    for (const Piece& piece : pieces) add(print, piece);
}

Claim tensors_of(const Catalogue& catalogue) {
    Fingerprint print;
    add(print, std::span{catalogue.tensors});
    return {"the tensors of the checkpoint", text(print), {}};
}

Claim pieces_of(const formats::Checkpoint& checkpoint) {
    Fingerprint print;
    for (const FileEntry& file : checkpoint.catalogue.files) {
        print.add(file.path.string());
        print.add(file.size);
    }
    add(print, std::span{checkpoint.catalogue.pieces});
    for (std::uint64_t archive : checkpoint.archives) print.add(archive);
    for (const Object& object : checkpoint.catalogue.objects) {
        print.add(object.name);
        for (std::uint64_t number : {std::uint64_t{object.file}, object.offset, object.length}) print.add(number);
    }
    return {"the pieces of the checkpoint", text(print), {}};
}

Claim state_of(const formats::Checkpoint& checkpoint) {
    Fingerprint print;
    print.add(formats::name(checkpoint.format));
    print.add(static_cast<std::uint64_t>(checkpoint.iteration.value_or(-1)));
    print.add(checkpoint.config_json);
    for (const Role role : checkpoint.roles) print.add(name(role));
    for (const std::string& parameter : checkpoint.parameters) print.add(parameter);
    for (const std::filesystem::path& companion : checkpoint.companions) print.add(companion.string());
    return {"the configuration of the checkpoint", text(print), {}};
}

/// One claim for each file to write: its size, the bytes that are known, what is copied into it, and the pieces in it.
void claim_draft(const Draft& draft, const std::filesystem::path& directory, std::vector<Claim>& claims) {
    std::vector<Fingerprint> prints(draft.files.size());
    for (const Draft::Fixed& fixed : draft.fixed) {
        prints[fixed.file].add(fixed.offset);
        prints[fixed.file].add(fixed.bytes.size());
        prints[fixed.file].add(Crc64::of(std::as_bytes(std::span{fixed.bytes})));
    }
    for (const Draft::Copy& copy : draft.copies) {
        prints[copy.file].add(copy.source.lexically_relative(directory).string());
        for (std::uint64_t number : {copy.source_offset, copy.length, copy.offset}) prints[copy.file].add(number);
    }
    for (const Draft::CrcSlot& slot : draft.crc_slots) {
        for (std::uint64_t number : {std::uint64_t{slot.piece}, slot.offset, slot.begin, slot.length})
            prints[slot.file].add(number);
    }
    for (const Piece& piece : draft.pieces) add(prints[piece.file], piece);
    for (std::size_t k = 0; k < prints.size(); ++k)
        claims.push_back({fmt::format("the output's {}", draft.files[k].path.string()),
                          fmt::format("{} bytes, {}", draft.files[k].size, text(prints[k])),
                          {}});
}

Claim moves_of(const formats::Conversion& conversion, const Moves& moves) {
    Fingerprint print;
    add(print, std::span{conversion.source_tensors});
    add(print, std::span{conversion.target_tensors});
    add(print, std::span{conversion.source_pieces});
    add(print, std::span{conversion.target_pieces});
    for (const Move& move : moves) {
        print.add(std::uint64_t{move.source});
        print.add(std::uint64_t{move.target});
        print.add(move.box);
    }
    return {"the moves", fmt::format("{} of them, {}", moves.size(), text(print)), {}};
}

}  // namespace

std::vector<Claim> claims_of_source(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source) {
    std::vector<Claim> claims = claims_of(comm, record, source.checkpoint.catalogue.directory);
    claims.push_back(tensors_of(source.checkpoint.catalogue));
    claims.push_back(pieces_of(source.checkpoint));
    claims.push_back(state_of(source.checkpoint));
    return claims;
}

std::vector<Claim> claims_of_options(const ReshardOptions& options, const ReshardJob& job) {
    const auto text = [](const std::string& value) { return value.empty() ? "not given" : fmt::format("'{}'", value); };
    const auto size = [](std::optional<std::uint64_t> value) {
        return value ? fmt::format("{} bytes", *value) : "not given";
    };
    const auto number = [](Integer value) { return value ? fmt::format("'{}'", *value) : "not given"; };
    const auto flag = [](bool given) { return given ? "given" : "not given"; };
    return {{"OUT", text(options.output), {}},
            {"the layout of OUT", to_string(job.target.layout), {}},
            {"--format", std::string{formats::name(job.target.format)}, {}},
            {"--dialect", text(job.target.dialect), {}},
            {"--dtype", text(options.dtype), {}},
            {"--drop", text(options.drop), {}},
            {"--merge-adapter", text(options.merge_adapter), {}},
            {"--memory", size(options.memory), {}},
            {"--shard-size", size(options.shard_size), {}},
            {"--hardware", text(options.hardware), {}},
            {"--trace", text(options.trace), {}},
            {"--threads", number(options.threads), {}},
            {"--io-ranks", number(options.io_ranks), {}},
            {"--patience", number(options.patience), {}},
            {"--hold", text(options.hold), {}},
            {"--hold-name", text(options.hold_name), {}},
            {"--hold-device", text(options.hold_device), {}},
            {"--restart", flag(options.restart), {}},
            {"--force", flag(options.force), {}},
            {"--verify", flag(options.verify), {}},
            {"--dry-run", flag(options.dry_run), {}},
            {"--allow-missing", flag(options.allow_missing), {}},
            {"--masters", flag(options.masters), {}},
            {"--stages", flag(options.stages), {}}};
}

std::vector<Claim> claims_of_job(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source,
                                 const formats::Conversion& conversion, const Moves& moves) {
    std::vector<Claim> claims = claims_of_source(comm, record, source);
    claim_draft(conversion.draft, source.checkpoint.catalogue.directory, claims);
    claims.push_back(moves_of(conversion, moves));
    return claims;
}

}  // namespace tpx::cli
