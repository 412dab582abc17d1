# install.cmake -- what `cmake --install` puts where; and the target `uninstall`.
#
# Nothing that is installed knows the prefix: .pc files and the CMake package find it from where they
# are, libraries from $ORIGIN. So an installation may be made with --prefix or DESTDIR and moved.
include(CMakePackageConfigHelpers)

set(OPMETER_DOCDIR ${CMAKE_INSTALL_DATADIR}/doc/opmeter CACHE STRING "where license and notices go")

# What is compiled against.
foreach(lib opmeter_shared opmeter_static opmeter_trace_shared opmeter_run_shared)
  target_include_directories(${lib} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set_target_properties(opmeter_shared PROPERTIES EXPORT_NAME opmeter)
set_target_properties(opmeter_static PROPERTIES EXPORT_NAME opmeter-static)
set_target_properties(opmeter_trace_shared PROPERTIES EXPORT_NAME trace)
set_target_properties(opmeter_run_shared PROPERTIES EXPORT_NAME run)
set_target_properties(opmeter_run_shared PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS opmeter_static opmeter_shared opmeter_trace_shared opmeter_run_shared
  EXPORT opmeter)
install(TARGETS opmeter_cuda opmeter_llama)
install(DIRECTORY include/opmeter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/opmeter)
install(EXPORT opmeter NAMESPACE opmeter:: FILE opmeter-targets.cmake DESTINATION ${cmake_dir})
configure_file(tools/opmeter-config.cmake.in opmeter-config.cmake @ONLY)
write_basic_package_version_file(opmeter-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/opmeter-config.cmake ${CMAKE_BINARY_DIR}/opmeter-config-version.cmake
  DESTINATION ${cmake_dir})

# From lib/x86_64-linux-gnu/pkgconfig back to the prefix.
file(RELATIVE_PATH to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" OPMETER_TO_PREFIX "${to_prefix}")
foreach(pc opmeter opmeter-trace opmeter-run)
  configure_file(tools/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
set(OPMETER_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(tools/after_install.cmake.in after_install.cmake @ONLY)

set(installed opmeter_static opmeter_shared opmeter_trace_shared opmeter_run_shared opmeter_cuda opmeter_llama
  opmeter_cli)
install(TARGETS opmeter_cli)

# What shells complete comes from the tables of options, so the program itself writes it.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  foreach(shell bash zsh fish)
    add_custom_command(OUTPUT completions/${shell}
      COMMAND ${CMAKE_COMMAND} -E make_directory completions
      COMMAND opmeter_cli completion ${shell} > completions/${shell}
      DEPENDS opmeter_cli VERBATIM)
  endforeach()
  add_custom_target(opmeter_completions ALL
    DEPENDS completions/bash completions/zsh completions/fish)
  list(APPEND installed opmeter_completions)
  set(completions ${CMAKE_CURRENT_BINARY_DIR}/completions)
  install(FILES ${completions}/bash RENAME opmeter
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions}/zsh RENAME _opmeter
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completions}/fish RENAME opmeter.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
file(GLOB man_pages CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE THIRD-PARTY-NOTICES CHANGELOG.md DESTINATION ${OPMETER_DOCDIR})

# All that `cmake --install` needs, and nothing of the tests.
add_custom_target(opmeter_installed DEPENDS ${installed})

install(SCRIPT ${CMAKE_BINARY_DIR}/after_install.cmake)
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -D MANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
    -P ${CMAKE_CURRENT_SOURCE_DIR}/tools/uninstall.cmake
  VERBATIM USES_TERMINAL)
