// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/hosts_file.hpp"

#include "formats/files/plan/host_names.hpp"
#include "formats/files/plan/slurm_hosts.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace tpx::formats {
namespace {

constexpr std::int64_t most_gpus = 4096;
constexpr std::int64_t most_hosts = 1'000'000;
constexpr std::uint64_t longest_file = std::uint64_t{256} << 20;
constexpr double least_rate = 1e3, most_rate = 1e15;  // bytes per second

template <class Line, class... Args>
Error toml_error(std::string_view file, Line line, fmt::format_string<Args...> format, Args&&... args) {
    Error error{Exit::usage, format, std::forward<Args>(args)...};
    error.prepend(fmt::format("{}:{}", file, line));
    return error;
}

std::optional<int> whole_number(std::string_view text, std::int64_t most = most_gpus) {
    int number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || end != text.data() + text.size() || number < 1 || number > most) return std::nullopt;
    return number;
}

// Why a name cannot replace {host} in paths; empty: it can.
std::string_view path_fault(std::string_view name) {
    if (name.find('/') != name.npos) return "it contains '/'";
    if (name == "." || name == "..") return "it refers to a folder";
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    return std::ranges::any_of(name, is_control) ? "it contains a control character" : "";
}

// Collects hosts and rejects duplicate names.
class Hosts {
public:
    explicit Hosts(std::string_view file) : file_{file} {}

    void add(Host host, std::size_t line) {
        if (host.name.empty()) throw toml_error(file_, line, "a host needs a name");
        if (host.name.find_first_of("[],") != host.name.npos)
            throw toml_error(file_, line, "'{}' is not a valid host name: it contains brackets or commas", host.name);
        if (const std::string_view fault = path_fault(host.name); !fault.empty())
            throw toml_error(file_, line, "'{}' is not a valid host name: {}", host.name, fault);
        const auto [first, is_new] = lines_.try_emplace(host.name, line);
        if (!is_new) throw toml_error(file_, line, "host '{}' is already named on line {}", host.name, first->second);
        hosts_.push_back(std::move(host));
    }

    std::vector<Host> all() && {
        if (hosts_.empty()) throw Error{Exit::usage, "{}: contains no hosts", file_};
        return std::move(hosts_);
    }

private:
    std::string_view file_;
    std::vector<Host> hosts_;
    std::map<std::string, std::size_t> lines_;
};

// Parses "node0 slots=8", "node0:8" or "node0"; `line` has no comment. Unset for a blank line.
std::optional<Host> host_of_line(std::string_view line, std::string_view file, std::size_t number) {
    constexpr std::string_view blanks = " \t\r";
    std::vector<std::string_view> words;
    for (std::size_t at = line.find_first_not_of(blanks); at != line.npos; at = line.find_first_not_of(blanks, at)) {
        const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end;
    }
    if (words.empty()) return std::nullopt;

    Host host;
    const std::size_t colon = words.front().find(':');
    host.name = words.front().substr(0, colon);
    if (colon != line.npos) words.front().remove_prefix(colon + 1);
    for (std::size_t i = colon == line.npos ? 1 : 0; i < words.size(); ++i) {
        std::string_view count = words[i];
        const bool is_limit = count.starts_with("max_slots=") || count.starts_with("max-slots=");
        if (i > 0) count = is_limit || count.starts_with("slots=") ? count.substr(count.find('=') + 1) : "";
        const std::optional<int> slots = whole_number(count);
        if (!slots)
            throw toml_error(file, number, "'{}' is not a number of slots such as slots=8 (1 to {})", words[i],
                             most_gpus);
        if (!is_limit) host.gpus = *slots;
    }
    return host;
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view file) {
    Hosts hosts{file};
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        std::optional<Host> host = host_of_line(line.substr(0, line.find('#')), file, number);
        if (host) hosts.add(std::move(*host), number);
    }
    return std::move(hosts).all();
}

// Rejects rates that are probably in another unit, such as nic = 25 for 25 GB/s. A rate with a unit may be small: a
// machine may be stalled.
double sane_rate(double rate, const toml::node& value, std::string_view key, std::string_view file) {
    if (rate < (value.is_string() ? 1 : least_rate) || rate > most_rate)
        throw toml_error(file, value.source().begin.line,
                         "{}: {:g} bytes per second cannot be right; write the unit, as in \"25 GB/s\"", key, rate);
    return rate;
}

double rate_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto line = value.source().begin.line;
    try {
        if (const auto text = value.value<std::string_view>()) return parse_rate(*text);
    } catch (const Error& error) {
        throw toml_error(file, line, "{}: {}", key, error.what());
    }
    const auto number = value.is_number() ? value.value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number) || *number <= 0)
        throw toml_error(file, line, "{}: a rate is a positive number of bytes per second, or text such as \"25 GB/s\"",
                         key);
    return *number;
}

int count_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto count = value.value_exact<std::int64_t>();
    if (!count || *count < 1 || *count > most_gpus)
        throw toml_error(file, value.source().begin.line, "{}: a whole number from 1 to {} was expected", key,
                         most_gpus);
    return static_cast<int>(*count);
}

std::uint64_t iteration_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto iteration = value.value_exact<std::int64_t>();
    if (!iteration || *iteration < 0)
        throw toml_error(file, value.source().begin.line, "{}: a whole number that is not negative was expected", key);
    return static_cast<std::uint64_t>(*iteration);
}

std::string text_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto text = value.value_exact<std::string>();
    if (!text) throw toml_error(file, value.source().begin.line, "{}: text was expected", key);
    return *text;
}

bool truth_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto truth = value.value_exact<bool>();
    if (!truth) throw toml_error(file, value.source().begin.line, "{}: true or false was expected", key);
    return *truth;
}

// The distinct device numbers in `value`, ascending.
std::vector<int> numbers_of(const toml::node& value, std::string_view key, std::string_view file) {
    const auto refuse = [&] {
        return toml_error(file, value.source().begin.line, "{}: a list of devices such as [0, 5] was expected", key);
    };
    const toml::array* list = value.as_array();
    if (!list) throw refuse();
    std::vector<int> numbers;
    for (const toml::node& entry : *list) {
        const auto number = entry.value_exact<std::int64_t>();
        if (!number || *number < 0 || *number >= most_gpus) throw refuse();
        numbers.push_back(static_cast<int>(*number));
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

double size_of(const toml::node& value, std::string_view key, std::string_view file) {
    try {
        if (const auto text = value.value_exact<std::string_view>()) return static_cast<double>(parse_bytes(*text));
    } catch (const Error& error) {
        throw toml_error(file, value.source().begin.line, "{}: {}", key, error.what());
    }
    return rate_of(value, key, file);
}

void set(Host& host, std::string_view key, const toml::node& value, std::string_view file) {
    const std::map<std::string_view, std::optional<double> Host::*> rates{
        {"nic", &Host::nic},       {"disk_read", &Host::disk_read},     {"disk_write", &Host::disk_write},
        {"memory", &Host::memory}, {"device_copy", &Host::device_copy}, {"device_link", &Host::device_link}};
    if (const auto rate = rates.find(key); rate != rates.end())
        host.*rate->second = sane_rate(rate_of(value, key, file), value, key, file);
    else if (key == "name")
        host.name = text_of(value, key, file);
    else if (key == "switch")
        host.switch_group = text_of(value, key, file);
    else if (key == "gpus")
        host.gpus = count_of(value, key, file);
    else if (key == "rails")
        host.rails = count_of(value, key, file);
    else if (key == "device_memory")
        host.device_memory = size_of(value, key, file);
    else if (key == "iteration")
        host.iteration = iteration_of(value, key, file);
    else if (key == "device_type")
        host.device_type = text_of(value, key, file);
    else if (key == "lost")
        host.lost = truth_of(value, key, file);
    else if (key == "lost_devices")
        host.lost_devices = numbers_of(value, key, file);
    else if (key == "spare")
        host.spare = truth_of(value, key, file);
    else
        throw toml_error(
            file, value.source().begin.line,
            "unknown key '{}'; name, gpus, nic, rails, switch, disk_read, disk_write, memory, device_copy, "
            "device_link, device_memory, device_type, iteration, lost, lost_devices and spare are known",
            key);
}

std::vector<Host> parse_toml(std::string_view text, std::string_view file) {
    const toml::table root = parse_toml_text(text, file);
    Hosts hosts{file};
    for (const auto& [key, value] : root) {
        if (key == "measured" && value.is_table()) continue;  // parse_hardware reads it
        const toml::array* tables = value.as_array();
        if (key != "hosts" || !tables)
            throw toml_error(file, value.source().begin.line, "'{}': only [[hosts]] tables are known",
                             std::string_view{key});
        for (const toml::node& entry : *tables) {
            const auto line = entry.source().begin.line;
            const toml::table* table = entry.as_table();
            if (!table) throw toml_error(file, line, "hosts: a table was expected");
            Host host;
            for (const auto& [name, field] : *table) set(host, name, field, file);
            if (!host.lost_devices.empty() && host.lost_devices.back() >= host.gpus)
                throw toml_error(file, line, "lost_devices: host '{}' has no device {}, its devices are 0 to {}",
                                 host.name, host.lost_devices.back(), host.gpus - 1);
            if (host.name.find_first_of("[,") == host.name.npos) {
                hosts.add(std::move(host), line);
                continue;
            }
            for (std::string& name : expand_host_names(host.name)) {
                host.name = std::move(name);
                hosts.add(host, line);
            }
        }
    }
    return std::move(hosts).all();
}

// Parses "4x8" or "4×8"; unset for other text.
std::optional<std::vector<Host>> grid_of(std::string_view text) {
    for (std::string_view times : {"x", "X", "×"}) {
        const std::size_t at = text.find(times);
        if (at == text.npos) continue;
        const std::optional<int> count = whole_number(text.substr(0, at), most_hosts);
        const std::optional<int> gpus = whole_number(text.substr(at + times.size()));
        if (count && gpus) return uniform_hosts(*count, *gpus);
    }
    return std::nullopt;
}

}  // namespace

std::vector<Host> read_hosts(std::string_view argument) {
    if (argument == "slurm") {
        return slurm_hosts([](const char* name) {
            const char* value = std::getenv(name);
            return value ? std::optional<std::string>{value} : std::nullopt;
        });
    }
    if (auto grid = grid_of(argument)) return std::move(*grid);
    constexpr std::string_view grid_signs = "0123456789xX";  // a file of such a name is possible
    if (argument.find_first_not_of(grid_signs) == argument.npos && !path_exists(std::filesystem::path{argument}))
        throw Error{Exit::usage,
                    "hosts: '{}' is not NxG (1 to {} hosts with 1 to {} devices each), and no such file exists",
                    argument, most_hosts, most_gpus};
    return parse_hosts(read_file(std::filesystem::path{argument}, longest_file), argument);
}

bool is_hosts_toml(std::string_view text, std::string_view file) {
    if (file.ends_with(".toml")) return true;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        const std::size_t first = line.find_first_not_of(" \t\r");
        if (first != line.npos && line[first] != '#') return line[first] == '[';
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return false;
}

std::vector<Host> parse_hosts(std::string_view text, std::string_view file) {
    return is_hosts_toml(text, file) ? parse_toml(text, file) : parse_hostfile(text, file);
}

}  // namespace tpx::formats
