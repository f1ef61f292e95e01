# cmake -DROOT=DIR -P layering.cmake: fails when an #include in DIR runs against the arrows cmd -> formats -> lib and,
# inside lib, cluster -> model -> plan -> layout -> core and exec -> plan, or names a library its folder may not know.
cmake_minimum_required(VERSION 3.25)

# Folder, then the folders that it may include besides itself.
set(arrows
  "lib/core|"
  "lib/layout|lib/core"
  "lib/plan|lib/core lib/layout"
  "lib/exec|lib/core lib/layout lib/plan"
  "lib/model|lib/core lib/layout lib/plan"
  "lib/cluster|lib/core lib/layout lib/plan lib/model"
  "formats|lib/core lib/layout lib/plan lib/model lib/cluster"
  "cmd|formats lib/core lib/layout lib/plan lib/exec lib/model lib/cluster")

# Header of a library, as a regular expression, then the folders that may include it.
set(libraries
  "CLI/.*|cmd"
  "nlohmann/.*|formats cmd"
  "toml\\+\\+/.*|lib/layout formats"
  "hdf5.*|formats"
  "H5.*|formats"
  "zlib\\.h|formats"
  "mpi\\.h|lib/exec"
  "cuda.*|lib/exec"
  "nccl.*|lib/exec"
  "iostream|cmd"
  "cstdio|cmd")

set(faults "")

# The fault, if any, of the line `#include` of `header` in `file`, which lies in `folder`; `angled` for <header>.
function(check_include file folder allowed header angled)
  if(angled)
    foreach(rule ${libraries})
      string(REGEX MATCH "^(.*)\\|(.*)$" _ "${rule}")
      set(who "${CMAKE_MATCH_2}")
      if("${header}" MATCHES "^(${CMAKE_MATCH_1})$" AND NOT " ${who} " MATCHES " ${folder} ")
        set(faults "${faults}\n${file}: <${header}> belongs to ${who}" PARENT_SCOPE)
      endif()
    endforeach()
    return()
  endif()
  foreach(target ${folder} ${allowed} generated)
    string(FIND "${header}" "${target}/" at)
    if(at EQUAL 0)
      return()
    endif()
  endforeach()
  set(faults "${faults}\n${file}: \"${header}\" is not what ${folder} may include" PARENT_SCOPE)
endfunction()

foreach(arrow ${arrows})
  string(REGEX MATCH "^(.*)\\|(.*)$" _ "${arrow}")
  set(folder ${CMAKE_MATCH_1})
  string(REPLACE " " ";" allowed "${CMAKE_MATCH_2}")
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cu)
  foreach(source ${sources})
    file(STRINGS ${ROOT}/${source} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line ${lines})
      string(REGEX MATCH "([<\"])([^>\"]+)[>\"]" _ "${line}")
      string(COMPARE EQUAL "${CMAKE_MATCH_1}" "<" angled)
      check_include(${source} ${folder} "${allowed}" "${CMAKE_MATCH_2}" ${angled})
    endforeach()
  endforeach()
endforeach()

if(faults)
  message(FATAL_ERROR "includes against the arrows:${faults}")
endif()
