// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/globals.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace tpx::torch {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array renamed_modules{std::pair{"__builtin__"sv, "builtins"sv}, std::pair{"copy_reg"sv, "copyreg"sv},
                                     std::pair{"UserDict"sv, "collections"sv},
                                     std::pair{"UserList"sv, "collections"sv}};
constexpr std::array renamed_builtins{std::pair{"xrange"sv, "range"sv}, std::pair{"unicode"sv, "str"sv},
                                      std::pair{"long"sv, "int"sv}};

// tpx never calls anything, so this list protects users who load what tpx writes, and reveals a malicious file early.
constexpr std::array forbidden{"_operator"sv,  "_pickle"sv,  "_posixsubprocess"sv,
                               "_winapi"sv,    "asyncio"sv,  "bdb"sv,
                               "code"sv,       "codeop"sv,   "commands"sv,
                               "cPickle"sv,    "cProfile"sv, "ctypes"sv,
                               "http"sv,       "imp"sv,      "importlib"sv,
                               "marshal"sv,    "nt"sv,       "ntpath"sv,
                               "operator"sv,   "os"sv,       "pdb"sv,
                               "pickle"sv,     "pip"sv,      "pkgutil"sv,
                               "posix"sv,      "profile"sv,  "pty"sv,
                               "pydoc"sv,      "requests"sv, "runpy"sv,
                               "shutil"sv,     "socket"sv,   "ssl"sv,
                               "subprocess"sv, "sys"sv,      "timeit"sv,
                               "urllib"sv,     "venv"sv,     "webbrowser"sv};

constexpr std::array harmless_builtins{
    "Ellipsis"sv, "NotImplemented"sv, "bool"sv,      "bytearray"sv, "bytes"sv, "complex"sv,
    "dict"sv,     "float"sv,          "frozenset"sv, "getattr"sv,   "int"sv,   "list"sv,
    "object"sv,   "range"sv,          "set"sv,       "slice"sv,     "str"sv,   "tuple"sv};

template <class Names>
bool has(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view last_component(std::string_view name) {
    const auto dot = name.rfind('.');
    return dot == name.npos ? name : name.substr(dot + 1);
}

}  // namespace

Global python3_name(Global global) {
    if (global.module == "__builtin__")
        for (const auto& [old_name, new_name] : renamed_builtins)
            if (global.name == old_name) return {"builtins", new_name};
    for (const auto& [old_module, new_module] : renamed_modules)
        if (global.module == old_module) return {new_module, global.name};
    return global;
}

std::string_view python2_module(std::string_view module) {
    if (module == "builtins") return "__builtin__";
    return module == "copyreg" ? "copy_reg" : module;
}

void check_harmless(Global global) {
    const std::string_view package = global.module.substr(0, global.module.find('.'));
    const bool refused = package == "builtins" ? !has(harmless_builtins, global.name) : has(forbidden, package);
    if (refused) throw failure("refused: the pickle names {}.{}, which would run code", global.module, global.name);
}

void check_enum_member(Value args) {
    const auto parts = args.items();
    if (parts.size() != 2 || !parts[0].is(Kind::global) || !parts[1].is(Kind::string))
        throw failure("refused: the pickle calls getattr on something that is not an enum, which would run code");
    const Global owner = parts[0].as_global();
    const std::string_view member = parts[1].as_string();
    std::string_view type = last_component(owner.name);
    type.remove_prefix(std::min(type.find_first_not_of('_'), type.size()));
    // Classes are capitalized, modules are not.
    if (type.empty() || !std::isupper(static_cast<unsigned char>(type.front())) || member.starts_with("__"))
        throw failure("refused: the pickle calls getattr({}.{}, '{}'), which would run code", owner.module, owner.name,
                      member);
}

}  // namespace tpx::torch
