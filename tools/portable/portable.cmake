# portable.cmake -- with OPMETER_PORTABLE=ON a build depends on glibc 2.28 or newer and on nothing else:
# other libraries are linked statically, and glibc by old_glibc.py. For archives and wheels.
set(OPMETER_GLIBC 2.28)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
# No folder of this machine in what is linked; libraries are beside each other.
set(CMAKE_INSTALL_RPATH "$ORIGIN")

find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/old_glibc.py --cc ${CMAKE_C_COMPILER}
    --version ${OPMETER_GLIBC} ${CMAKE_BINARY_DIR}/old_glibc
  OUTPUT_VARIABLE old_glibc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
add_link_options(${old_glibc} -static-libgcc -Wl,--build-id=none
  $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,--wrap=__libc_start_main>)
# Not a thing of those who link with what is installed.
link_libraries($<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/old_glibc/old_glibc.a>)

# Debian's libmicrohttpd.a can do TLS, which is not asked of it, and wants GnuTLS for that.
find_library(OPMETER_MICROHTTPD_A microhttpd)
if(OPMETER_MICROHTTPD_A)
  execute_process(COMMAND ${CMAKE_NM} --undefined-only --format=posix ${OPMETER_MICROHTTPD_A}
    OUTPUT_VARIABLE names ERROR_QUIET)
  string(REGEX MATCHALL "gnutls_[a-z0-9_]+" names "${names}")
  list(REMOVE_DUPLICATES names)
  # Without <stdlib.h>: not every CMake configures a text with < in it.
  set(code "void abort(void);\n")
  foreach(name IN LISTS names)
    if(name MATCHES "^gnutls_global_(de)?init$")
      string(APPEND code "int ${name}(void);\nint ${name}(void)\n{\n    return 0;\n}\n")
    else()
      string(APPEND code "void ${name}(void);\nvoid ${name}(void)\n{\n    abort();\n}\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/no_tls.c CONTENT "${code}" @ONLY)
endif()

# opm_portable_library(MODULE NAME): PkgConfig::MODULE links the static library NAME.
function(opm_portable_library module name)
  find_library(OPMETER_${module}_A ${name})
  if(NOT OPMETER_${module}_A)
    message(FATAL_ERROR "OPMETER_PORTABLE: there is no lib${name}.a")
  endif()
  set_target_properties(PkgConfig::${module} PROPERTIES
    INTERFACE_LINK_LIBRARIES ${OPMETER_${module}_A})
endfunction()

# What find_package() and pkg-config have found becomes the static libraries.
macro(opm_make_portable)
  opm_portable_library(ZSTD zstd)
  opm_portable_library(PCRE2 pcre2-8)
  if(MICROHTTPD_FOUND)
    add_library(opmeter_no_tls STATIC ${CMAKE_BINARY_DIR}/no_tls.c)
    set_target_properties(PkgConfig::MICROHTTPD PROPERTIES
      INTERFACE_LINK_LIBRARIES "${OPMETER_MICROHTTPD_A};opmeter_no_tls")
  endif()
endmacro()
