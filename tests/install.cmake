# cmake -DBUILD=DIR -DSCRATCH=DIR -DEXPECTED=FILE -DVERSION=X.Y.Z -P install.cmake: installs into SCRATCH, compares the list
# of files with EXPECTED, and runs what was installed.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE files RELATIVE ${SCRATCH} ${SCRATCH}/*)
list(SORT files)
file(STRINGS ${EXPECTED} expected)
foreach(file ${expected})
  if(NOT file IN_LIST files)
    message(SEND_ERROR "not installed: ${file}")
  endif()
endforeach()
foreach(file ${files})
  if(NOT file IN_LIST expected)
    message(SEND_ERROR "installed, but not in ${EXPECTED}: ${file}")
  endif()
endforeach()

execute_process(COMMAND ${SCRATCH}/bin/tpx --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
if(NOT version STREQUAL "tpx ${VERSION}\n")
  message(SEND_ERROR "the installed tpx says it is ${version}, not tpx ${VERSION}")
endif()
