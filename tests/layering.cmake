# cmake -DROOT=DIR -P layering.cmake: fails when a source in DIR does not include its own header first, or an #include
# runs against the arrows cmd -> formats -> lib and, inside lib, cluster -> model -> change -> layout -> state
# -> core, change -> solve, exec -> change and check -> core, or names a library that its folder may not know. Inside
# formats, encodings and settings include no other subfolder; state and files include only those two, and values also
# state. In the order quantized, adapters, convert, rules, a folder may include only earlier ones. The folder of a checkpoint
# format includes no other one, and is included by registry.cpp and the files in `format_users` alone. In cmd, the folder of
# a command includes cli, output, jobs and the folders in its line. Also fails when a folder of formats or cmd has no line
# here.
cmake_minimum_required(VERSION 3.25)

# What the folder of every checkpoint format may include besides itself.
string(CONCAT of_format "formats/checkpoint.hpp formats/companions.hpp formats/driver.hpp formats/folder_files.hpp "
  "formats/recognize.hpp formats/source.hpp formats/encodings formats/settings formats/state lib/core lib/state lib/layout")

# What all of cmd may include, and what the folder of every command may include besides itself.
set(below_cmd "formats lib/core lib/state lib/layout lib/change lib/check lib/exec lib/model lib/cluster")
set(of_command "cmd/cli cmd/output ${below_cmd}")

# Folder, then the folders that it may include besides itself. A subfolder that may include less than its parent has its
# own line, before the parent's.
set(arrows
  "lib/core|"
  "lib/state|lib/core"
  "lib/layout|lib/core lib/state"
  "lib/solve|"
  "lib/change|lib/core lib/state lib/layout lib/solve"
  "lib/check|lib/core"
  "lib/exec|lib/core lib/state lib/layout lib/change"
  "lib/model|lib/core lib/state lib/layout lib/change"
  "lib/cluster|lib/core lib/state lib/layout lib/change lib/model"
  "formats/encodings/dcp|formats/checkpoint.hpp formats/encodings/file_blocks.hpp formats/encodings/new_objects.hpp formats/encodings/torch lib/core"
  "formats/encodings/hdf5|lib/core"
  "formats/encodings/safetensors|formats/encodings/file_blocks.hpp lib/core"
  "formats/encodings/torch|lib/core"
  "formats/encodings/zarr|lib/core"
  "formats/encodings/held|lib/core lib/layout"
  "formats/encodings|lib/core"
  "formats/settings|lib/core lib/state lib/layout lib/model"
  "formats/files|formats/checkpoint.hpp formats/encodings formats/settings lib/core lib/state lib/layout lib/change lib/check lib/model lib/cluster"
  "formats/state|formats/checkpoint.hpp formats/driver.hpp formats/source.hpp formats/encodings formats/settings lib/core lib/state lib/layout lib/model"
  "formats/convert|formats/checkpoint.hpp formats/driver.hpp formats/source.hpp formats/companions.hpp formats/folder_files.hpp formats/adapters formats/encodings formats/files formats/quantized formats/settings formats/state lib/core lib/state lib/layout lib/change lib/model"
  "formats/values|formats/checkpoint.hpp formats/driver.hpp formats/encodings formats/settings formats/state lib/core lib/layout"
  "formats/quantized|formats/checkpoint.hpp formats/driver.hpp formats/source.hpp formats/settings formats/state lib/core lib/layout"
  "formats/adapters|formats/checkpoint.hpp formats/driver.hpp formats/recognize.hpp formats/source.hpp formats/quantized formats/settings formats/state lib/core lib/layout"
  "formats/rules|formats/open_source.hpp formats/source.hpp formats/convert formats/quantized lib/core lib/layout"
  "formats/dcp|${of_format}"
  "formats/deepspeed|${of_format}"
  "formats/gguf|${of_format}"
  "formats/hdf5|${of_format}"
  "formats/megatron|${of_format}"
  "formats/safetensors|${of_format}"
  "formats/torch|${of_format}"
  "formats|lib/core lib/state lib/layout lib/change lib/check lib/model lib/cluster"
  "cmd/cli|cmd/version.hpp ${below_cmd}"
  "cmd/output|cmd/version.hpp ${below_cmd}"
  "cmd/jobs|${of_command}"
  "cmd/plan|cmd/jobs cmd/report ${of_command}"
  "cmd/hold|cmd/jobs ${of_command}"
  "cmd/hosts|cmd/hold cmd/plan cmd/jobs ${of_command}"
  "cmd/stores|cmd/hosts cmd/plan cmd/jobs ${of_command}"
  "cmd/migrate|cmd/stores cmd/hosts cmd/jobs ${of_command}"
  "cmd/inspect|cmd/stores cmd/hosts cmd/plan cmd/jobs ${of_command}"
  "cmd/reshard|cmd/hold cmd/jobs cmd/version.hpp ${of_command}"
  "cmd/verify|cmd/jobs ${of_command}"
  "cmd/rules|cmd/jobs ${of_command}"
  "cmd/profile|cmd/jobs ${of_command}"
  "cmd/simulate|cmd/profile ${of_command}"
  "cmd|${below_cmd}")

# Folders of checkpoint formats, and files outside them that may include their headers: held state is always DCP, and a
# checkpoint in HDF5 may take its model from a file that an option names.
set(format_folders "^formats/(dcp|deepspeed|gguf|hdf5|megatron|safetensors|torch)/")
set(format_users formats/registry.cpp cmd/hold/hold_state.cpp cmd/jobs/open_checkpoint.cpp)

# Header of a library, as a regular expression, then the folders that may include it.
set(libraries
  "CLI/.*|cmd"
  "nlohmann/.*|formats cmd"
  "toml\\+\\+/.*|lib/layout formats"
  "hdf5.*|formats"
  "H5.*|formats"
  "zlib\\.h|formats lib/exec"
  "mpi\\.h|the MPI plug-in"
  "hwloc.*|lib/exec"
  "cuda.*|lib/exec"
  "nccl.*|lib/exec"
  "iostream|cmd"
  "cstdio|cmd")

set(faults "")

# The fault, if any, of the line `#include` of `header` in `file`, which lies in `folder`; `angled` for <header>.
function(check_include file folder allowed header angled)
  if(angled)
    string(REGEX REPLACE "^(formats|cmd)/.*" "\\1" outer ${folder})
    foreach(rule ${libraries})
      string(REGEX MATCH "^(.*)\\|(.*)$" _ "${rule}")
      set(who "${CMAKE_MATCH_2}")
      if("${header}" MATCHES "^(${CMAKE_MATCH_1})$" AND NOT " ${who} " MATCHES " ${outer} ")
        set(faults "${faults}\n${file}: <${header}> belongs to ${who}" PARENT_SCOPE)
      endif()
    endforeach()
    return()
  endif()
  if("${header}" MATCHES "${format_folders}" AND NOT file IN_LIST format_users)
    string(FIND "${header}" "${folder}/" at)
    if(NOT at EQUAL 0 OR folder STREQUAL "formats")
      set(faults "${faults}\n${file}: \"${header}\" is for its own folder and registry.cpp" PARENT_SCOPE)
      return()
    endif()
  endif()
  foreach(target ${folder} ${allowed} generated)
    string(FIND "${header}" "${target}/" at)
    if(at EQUAL 0 OR header STREQUAL target)
      return()
    endif()
  endforeach()
  set(faults "${faults}\n${file}: \"${header}\" is not what ${folder} may include" PARENT_SCOPE)
endfunction()

# A source includes its own header first, so that a header which needs another before it does not compile.
function(check_first source header lines)
  if(NOT EXISTS ${ROOT}/${header} OR source STREQUAL header)
    return()
  endif()
  list(GET lines 0 first)
  if(NOT first MATCHES "\"${header}\"")
    set(faults "${faults}\n${source}: does not include \"${header}\" first" PARENT_SCOPE)
  endif()
endfunction()

set(seen "")
foreach(arrow ${arrows})
  string(REGEX MATCH "^(.*)\\|(.*)$" _ "${arrow}")
  set(folder ${CMAKE_MATCH_1})
  string(REPLACE " " ";" allowed "${CMAKE_MATCH_2}")
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cu)
  list(REMOVE_ITEM sources ${seen})
  list(APPEND seen ${sources})
  foreach(source ${sources})
    file(STRINGS ${ROOT}/${source} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    string(REGEX REPLACE "\\.(cpp|cu)$" ".hpp" header ${source})
    check_first(${source} ${header} "${lines}")
    foreach(line ${lines})
      string(REGEX MATCH "([<\"])([^>\"]+)[>\"]" _ "${line}")
      string(COMPARE EQUAL "${CMAKE_MATCH_1}" "<" angled)
      check_include(${source} ${folder} "${allowed}" "${CMAKE_MATCH_2}" ${angled})
    endforeach()
  endforeach()
endforeach()

file(GLOB folders RELATIVE ${ROOT} ${ROOT}/formats/* ${ROOT}/cmd/*)
list(REMOVE_ITEM folders cmd/python cmd/report)  # not C++, but for a list of files
foreach(folder ${folders})
  set(lines ${arrows})
  list(FILTER lines INCLUDE REGEX "^${folder}[|]")
  if(IS_DIRECTORY ${ROOT}/${folder} AND NOT lines)
    string(APPEND faults "\n${folder}: has no line in tests/layering.cmake")
  endif()
endforeach()

if(faults)
  message(FATAL_ERROR "includes against the arrows:${faults}")
endif()
