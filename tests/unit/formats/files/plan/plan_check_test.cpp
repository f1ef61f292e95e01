// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_check.hpp"

#include "lib/change/state_locations.hpp"
#include "lib/core/file.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/formats/files/plan/altered_file.hpp"
#include "tests/unit/formats/files/plan/planned.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;
using namespace tpx::testing;

namespace {

/// Plans of all kinds, small enough to alter every field.
std::vector<std::pair<std::string, PlanFile>> plans() {
    return {
        {"memory", model_plan("tp=2,pp=2,dp=2,ep=2,etp=2,zero=1", "tp=2,pp=1,dp=2,ep=4,etp=1,zero=1", {})},
        {"groups", model_plan("tp=2,pp=4,ep=2,etp=1", "tp=1,pp=2,dp=4,ep=4,etp=1,zero=1", {.groups = true})},
        {"stores", model_plan("tp=2,pp=2,dp=2,ep=2", "tp=4,pp=1,dp=2,ep=2", {.state = StateMedium::stores})},
        {"shared", model_plan("tp=2,pp=4,zero=1", "tp=2,pp=2,zero=3", {.state = StateMedium::shared, .lost = true})},
        {"devices", model_plan("tp=2,pp=2,dp=2", "tp=2,dp=3", {.lost_device = 1})},
        {"pieces", checkpoint_plan_with_hosts(12, {})}};
}

bool is_found(const std::filesystem::path& file) {
    try {
        return !check_plan_file(file).holds();
    } catch (const Error&) {
        return true;
    }
}

/// Whether a field is a decision of the plan, not part of the request.
bool is_decided(std::string_view field) {
    static constexpr std::string_view fields[] = {
        "/cells/",           "/parcels/",      "/holders/",   "/needers/",    "/blocks/",
        "/transfers/",       "/sending",       "/loads/",     "/moves",       "/hosts/price",
        "/ranks/new_device", "/roles/needed",  "/roles/kept", "/roles/local", "/roles/same_host",
        "/roles/other_host", "/roles/storage", "/needed",     "/kept",        "/local",
        "/same_host",        "/other_host",    "/storage",    "/crossing",    "/bound",
        "/rounds",           "/targets",       "/elements",   "/bytes",       "/group"};
    return std::ranges::any_of(fields, [&](std::string_view start) { return field.starts_with(start); });
}

}  // namespace

TEST_CASE("plans for models and checkpoints pass the check") {
    const test::Scratch scratch;
    const auto file = scratch.path() / "change.plan";
    for (const auto& [name, plan] : plans()) {
        CAPTURE(name);
        write_plan_file(file, plan);
        const CheckedPlan checked = check_plan_file(file);
        CHECK(checked.fault == "");
        CHECK(checked.moves.has_value() == plan.checkpoint.has_value());
        CHECK(checked.hosts->ranks == plan.hosts->placement.devices.size());
        CHECK(checked.hosts->transfers == plan.hosts->relocation.transfers.size());
        CHECK(checked.hosts->transfers > 0);
        CHECK((checked.hosts->cells > 0) == plan.checkpoint.has_value());
        CHECK(checked.hosts->crossing == plan.hosts->placement.crossing);
        CHECK(check_plan_file(file, 3).hosts->ranks == 3);
    }
}

TEST_CASE("a plan that an earlier tpx wrote is read and passes the check") {
    const PlanFile plan = read_plan_file("testdata/plan/model.plan");
    CHECK(plan.model->name == "small");
    CHECK(plan.hosts->hosts.size() == 4);
    CHECK(check_plan_file("testdata/plan/model.plan").fault == "");
}

TEST_CASE("a checkpoint plan without cells, as earlier versions wrote it, is read and passes the check") {
    CHECK(read_plan_file("testdata/plan/checkpoint.plan").checkpoint->cells.empty());
    const CheckedPlan checked = check_plan_file("testdata/plan/checkpoint.plan");
    CHECK(checked.fault == "");
    CHECK(checked.hosts->cells == 0);
}

TEST_CASE("write testdata/plan/model.plan" * doctest::skip()) {
    write_plan_file("testdata/plan/model.plan",
                    model_plan("tp=2,pp=2,dp=2,ep=2,etp=2,zero=1", "tp=2,pp=1,dp=2,ep=4,etp=1,zero=1", {}));
}

namespace {

bool is_in(std::span<const std::int32_t> ranks, std::int32_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
}

// Whether `bad` differs from `plan` only in ranks that can equally well send or receive the bytes of a transfer.
bool names_other_ranks(const std::filesystem::path& bad, const Change& plan, const Alteration& alteration) {
    if (alteration.field != "/transfers/from_rank" && alteration.field != "/transfers/to_rank") return false;
    if (alteration.kind == Alteration::drop || alteration.kind == Alteration::remove) return false;
    const Change altered = *read_plan_file(bad).hosts;
    const std::vector<std::int32_t> new_hosts = hosts_of_devices(plan.hosts, plan.placement.devices);
    for (std::size_t t = 0; t < plan.relocation.transfers.size(); ++t) {
        const Transfer& old = plan.relocation.transfers[t];
        const Transfer& now = altered.relocation.transfers[t];
        const Parcel& parcel = plan.parcels.parcels[old.parcel];
        if (now.to_rank != old.to_rank && (!is_in(plan.parcels.needers[parcel.needers], now.to_rank) ||
                                           new_hosts[now.to_rank] != static_cast<std::int32_t>(old.to)))
            return false;
        if (now.from_rank != old.from_rank &&
            (old.forwards || !is_in(plan.parcels.holders[parcel.holders], now.from_rank) ||
             plan.old_ranks[now.from_rank].host != static_cast<std::int32_t>(old.from)))
            return false;
    }
    return true;
}

// Whether a plan means the same after an alteration. The version does not affect the plan; without groups, the plan
// claims less, and its blocks are also valid for groups of one rank.
bool is_equivalent(const Alteration& alteration) {
    const bool removes = alteration.kind == Alteration::remove;
    return (alteration.field == "/version" && !removes) || (alteration.field == "/group" && removes);
}

}  // namespace

TEST_CASE("no field of a plan can be altered unnoticed, even with a fitting CRC" * doctest::skip(test::is_sanitized)) {
    const test::Scratch scratch;
    const auto good = scratch.path() / "good.plan";
    const auto bad = scratch.path() / "bad.plan";
    for (const auto& [name, plan] : plans()) {
        CAPTURE(name);
        write_plan_file(good, plan);
        int count = 0;
        for (const Alteration& alteration : alterations(good)) {
            CAPTURE(alteration.name());
            if (!alter(good, bad, alteration)) continue;
            if (!is_equivalent(alteration)) CHECK((is_found(bad) || names_other_ranks(bad, *plan.hosts, alteration)));
            ++count;
        }
        CHECK(count > 150);
    }
}

TEST_CASE("plans with arbitrary values are checked, never trusted") {
    const test::Scratch scratch;
    const auto good = scratch.path() / "good.plan";
    const auto bad = scratch.path() / "bad.plan";
    std::mt19937 random{9};
    const int rounds = test::is_sanitized ? 50 : 200;
    for (const auto& [name, plan] : plans()) {
        write_plan_file(good, plan);
        int found = 0;
        for (int round = 0; round < rounds; ++round) {
            scramble(good, bad, random);
            try {
                fit_request_digest(bad);
            } catch (const Error&) {
            }
            found += is_found(bad);
        }
        CHECK(found > rounds / 10 * 3);
    }
}

TEST_CASE("decisions of a plan cannot be altered unnoticed, even with a fitting request digest" *
          doctest::skip(test::is_sanitized)) {
    const test::Scratch scratch;
    const auto good = scratch.path() / "good.plan";
    const auto bad = scratch.path() / "bad.plan";
    for (const auto& [name, plan] : plans()) {
        CAPTURE(name);
        write_plan_file(good, plan);
        int count = 0;
        for (const Alteration& alteration : alterations(good)) {
            CAPTURE(alteration.name());
            if (!is_decided(alteration.field) || !alter(good, bad, alteration)) continue;
            ++count;
            try {
                fit_request_digest(bad);
            } catch (const Error&) {
                continue;  // no longer a plan
            }
            if (!is_equivalent(alteration)) CHECK((is_found(bad) || names_other_ranks(bad, *plan.hosts, alteration)));
        }
        CHECK(count > 100);
    }
}
