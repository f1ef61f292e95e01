# Changes the installed files to the form that Debian's policy requires. Does nothing for other packages.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component tpx mpi)
  set(name tpx)
  if(component STREQUAL mpi)
    set(name tpx-mpi)
  endif()
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  set(doc ${usr}/share/doc/${name})
  file(REMOVE ${usr}/share/doc/tpx/LICENSE)
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${doc})
  file(WRITE ${doc}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}; see CHANGELOG.md in the source.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB_RECURSE compressed ${usr}/share/man/*.[1-9] ${doc}/changelog)
  execute_process(COMMAND gzip -9n ${compressed} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Debian's zsh looks here for the completions of packages.
set(zsh ${CPACK_TEMPORARY_DIRECTORY}/tpx/usr/share/zsh)
file(RENAME ${zsh}/site-functions ${zsh}/vendor-completions)
