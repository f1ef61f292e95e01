// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/colouring.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace tpx {
namespace {

// Ends are senders from 0 and receivers after them. Links are coloured one by one. When no colour is free at both of
// its ends, colours change places along a path of links of two colours, which frees one (Kempe 1879).
class Colourer {
public:
    Colourer(std::span<const Link> links, std::uint32_t nodes) : links_{links}, nodes_{nodes} {
        std::vector<std::uint32_t> degrees(2 * nodes);
        for (const Link& link : links) {
            ++degrees[link.from];
            ++degrees[nodes + link.to];
        }
        if (!degrees.empty()) result_.colours = *std::ranges::max_element(degrees);
        words_ = (result_.colours + 63) / 64;
        at_.assign(std::size_t{2} * nodes * result_.colours, none);
        free_.assign(std::size_t{2} * nodes * words_, ~std::uint64_t{0});
        result_.colour.resize(links.size());
    }

    Colouring run() {
        for (std::uint32_t link = 0; link < links_.size(); ++link) {
            const std::uint32_t from = links_[link].from;
            const std::uint32_t to = nodes_ + links_[link].to;
            std::optional<std::uint32_t> colour = first_free(from, to);
            if (!colour) {
                colour = *first_free(from, from);
                swap_from(to, *colour, *first_free(to, to));
            }
            set(link, *colour);
        }
        return std::move(result_);
    }

private:
    static constexpr std::uint32_t none = ~0u;

    std::uint32_t& at(std::uint32_t end, std::uint32_t colour) {
        return at_[std::size_t{end} * result_.colours + colour];
    }

    // The lowest colour that no link at either end has.
    std::optional<std::uint32_t> first_free(std::uint32_t a, std::uint32_t b) const {
        for (std::uint32_t word = 0; word < words_; ++word) {
            const std::uint64_t both = free_[std::size_t{a} * words_ + word] & free_[std::size_t{b} * words_ + word];
            const auto colour = word * 64 + static_cast<std::uint32_t>(std::countr_zero(both));
            if (both != 0 && colour < result_.colours) return colour;
        }
        return std::nullopt;
    }

    void mark(std::uint32_t end, std::uint32_t colour, std::uint32_t link) {
        at(end, colour) = link;
        std::uint64_t& word = free_[std::size_t{end} * words_ + colour / 64];
        const std::uint64_t bit = std::uint64_t{1} << (colour % 64);
        word = link == none ? word | bit : word & ~bit;
    }

    void set(std::uint32_t link, std::uint32_t colour) {
        result_.colour[link] = colour;
        mark(links_[link].from, colour, link);
        mark(nodes_ + links_[link].to, colour, link);
    }

    // Gives the links of the path that leaves `end` with colours `taken`, `spare`, `taken`, ... the other of the two.
    // It never comes to the far end of the new link: senders are left by `spare`, and there `taken` is free.
    void swap_from(std::uint32_t end, std::uint32_t taken, std::uint32_t spare) {
        std::vector<std::uint32_t> path;
        std::uint32_t colour = taken;
        for (std::uint32_t link = at(end, taken); link != none; link = at(end, colour)) {
            path.push_back(link);
            end = end < nodes_ ? nodes_ + links_[link].to : links_[link].from;
            colour = colour == taken ? spare : taken;
        }
        for (std::uint32_t link : path) {
            mark(links_[link].from, result_.colour[link], none);
            mark(nodes_ + links_[link].to, result_.colour[link], none);
        }
        for (std::uint32_t link : path) set(link, result_.colour[link] == taken ? spare : taken);
    }

    std::span<const Link> links_;
    std::uint32_t nodes_;
    std::uint32_t words_ = 0;          // of 64 colours
    std::vector<std::uint32_t> at_;    // which link has a colour at an end
    std::vector<std::uint64_t> free_;  // bits: colours that no link has at an end
    Colouring result_;
};

}  // namespace

Colouring colour(std::span<const Link> links, std::uint32_t nodes) { return Colourer{links, nodes}.run(); }

}  // namespace tpx
