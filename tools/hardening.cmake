# hardening.cmake -- what makes a mistake of ours harder to exploit, in everything that is built.
# tools/check_hardening.py holds the binaries against it.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

option(OPMETER_HARDENING "build with stack protector, checked C library calls, RELRO and so on" ON)
check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES C CXX)
# Not in builds for the sanitizers: they see more, and together with frames on the heap (stack use
# after return) gcc 12 gives vectors of 64 bytes places that are not aligned.
if(NOT OPMETER_HARDENING OR OPMETER_SANITIZE)
  return()
endif()

set(wanted -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
  list(APPEND wanted -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND wanted -mbranch-protection=standard)
endif()
foreach(flag ${wanted})
  string(MAKE_C_IDENTIFIER "OPMETER_HAS${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    add_compile_options(${flag})
  endif()
endforeach()

# Needs optimisation.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
if("${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${type}}" MATCHES "-O([1-9s]|fast)")
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror")
  check_c_source_compiles("
    #include <string.h>
    #if !defined __USE_FORTIFY_LEVEL || __USE_FORTIFY_LEVEL < 3
    #error less
    #endif
    int main(void) { return 0; }" OPMETER_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  # Some compilers define a level of their own.
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${OPMETER_HAS_FORTIFY_3}>,3,2>)
endif()

foreach(flag relro now noexecstack)
  check_linker_flag(C -Wl,-z,${flag} OPMETER_HAS_LINK_${flag})
  if(OPMETER_HAS_LINK_${flag})
    add_link_options(-Wl,-z,${flag})
  endif()
endforeach()
