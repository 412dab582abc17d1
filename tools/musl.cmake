# musl.cmake -- toolchain: Debian's musl-gcc and the libraries of tools/musl_root.sh. What is built
# runs here. Debian has no C++ for musl: the few programs in C++ are tests, which go without ours.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/musl-root ABSOLUTE)
if(NOT EXISTS ${root}/packages)
  message(FATAL_ERROR "no libraries for musl in ${root}; run: script/bootstrap --musl")
endif()
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
# The kernel's headers, after the C library's own.
set(CMAKE_C_FLAGS_INIT "-idirafter ${root}/include")
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/lib/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR env) # it runs as it is
