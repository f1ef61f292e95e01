// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/edge_coloring.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace tpx {
namespace {

// Ends are numbered: senders from 0, then receivers. Links are colored one by one. When no color is free at both ends
// of a link, swapping two colors along a path of links in these colors frees one (Kempe 1879).
class Colorer {
public:
    Colorer(std::span<const Link> links, std::uint32_t nodes) : links_{links}, nodes_{nodes} {
        std::vector<std::uint32_t> degrees(2 * nodes);
        for (const Link& link : links) {
            ++degrees[link.from];
            ++degrees[nodes + link.to];
        }
        if (!degrees.empty()) result_.colors = *std::ranges::max_element(degrees);
        words_ = (result_.colors + 63) / 64;
        at_.assign(std::size_t{2} * nodes * result_.colors, none);
        free_.assign(std::size_t{2} * nodes * words_, ~std::uint64_t{0});
        result_.color.resize(links.size());
    }

    EdgeColoring run() {
        for (std::uint32_t link = 0; link < links_.size(); ++link) {
            const std::uint32_t from = links_[link].from;
            const std::uint32_t to = nodes_ + links_[link].to;
            std::optional<std::uint32_t> color = first_free(from, to);
            if (!color) {
                color = *first_free(from, from);
                swap_from(to, *color, *first_free(to, to));
            }
            set(link, *color);
        }
        return std::move(result_);
    }

private:
    static constexpr std::uint32_t none = ~0u;

    std::uint32_t& at(std::uint32_t end, std::uint32_t color) { return at_[std::size_t{end} * result_.colors + color]; }

    // The lowest color that no link at either end has.
    std::optional<std::uint32_t> first_free(std::uint32_t a, std::uint32_t b) const {
        for (std::uint32_t word = 0; word < words_; ++word) {
            const std::uint64_t both = free_[std::size_t{a} * words_ + word] & free_[std::size_t{b} * words_ + word];
            const auto color = word * 64 + static_cast<std::uint32_t>(std::countr_zero(both));
            if (both != 0 && color < result_.colors) return color;
        }
        return std::nullopt;
    }

    void mark(std::uint32_t end, std::uint32_t color, std::uint32_t link) {
        at(end, color) = link;
        std::uint64_t& word = free_[std::size_t{end} * words_ + color / 64];
        const std::uint64_t bit = std::uint64_t{1} << (color % 64);
        word = link == none ? word | bit : word & ~bit;
    }

    void set(std::uint32_t link, std::uint32_t color) {
        result_.color[link] = color;
        mark(links_[link].from, color, link);
        mark(nodes_ + links_[link].to, color, link);
    }

    // Swaps the two colors of the path that leaves `end` with colors `taken`, `spare`, `taken`, ... The path never
    // reaches the sender of the new link: it reaches senders by `taken`, which is free there.
    void swap_from(std::uint32_t end, std::uint32_t taken, std::uint32_t spare) {
        std::vector<std::uint32_t> path;
        std::uint32_t color = taken;
        for (std::uint32_t link = at(end, taken); link != none; link = at(end, color)) {
            path.push_back(link);
            end = end < nodes_ ? nodes_ + links_[link].to : links_[link].from;
            color = color == taken ? spare : taken;
        }
        for (std::uint32_t link : path) {
            mark(links_[link].from, result_.color[link], none);
            mark(nodes_ + links_[link].to, result_.color[link], none);
        }
        for (std::uint32_t link : path) set(link, result_.color[link] == taken ? spare : taken);
    }

    std::span<const Link> links_;
    std::uint32_t nodes_;
    std::uint32_t words_ = 0;          // of 64 colors
    std::vector<std::uint32_t> at_;    // which link has a color at an end
    std::vector<std::uint64_t> free_;  // bits: colors that no link has at an end
    EdgeColoring result_;
};

}  // namespace

EdgeColoring color(std::span<const Link> links, std::uint32_t nodes) { return Colorer{links, nodes}.run(); }

}  // namespace tpx
