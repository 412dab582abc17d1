# arm64.cmake -- toolchain: Debian's cross compiler and the libraries of tools/arm64_root.sh.
#
# What is built runs under qemu-user as it lies in the build folder: its loader and its libraries
# are those of the root, which is said in the programs. -DOPMETER_ARM64_LOADER=OFF builds them for
# a machine that has its own.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root)
if(DEFINED ENV{OPMETER_ARM64_ROOT})
  set(root $ENV{OPMETER_ARM64_ROOT})
endif()
get_filename_component(CMAKE_SYSROOT ${root} ABSOLUTE)
if(NOT EXISTS ${CMAKE_SYSROOT}/packages)
  message(FATAL_ERROR "no arm64 libraries in ${CMAKE_SYSROOT}; run: script/bootstrap --arm64")
endif()

if(NOT CMAKE_C_COMPILER)
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})

find_program(OPMETER_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(OPMETER_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${OPMETER_QEMU})
endif()

option(OPMETER_ARM64_LOADER "programs find loader and libraries in the root" ON)
if(OPMETER_ARM64_LOADER)
  set(lib ${CMAKE_SYSROOT}/usr/lib)
  # The old kind of path: libraries of libraries are found by it, too. One of the new kind in a
  # library would hide that of the program from what it loads.
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--dynamic-linker=${lib}/ld-linux-aarch64.so.1 -Wl,-rpath,${lib}/aarch64-linux-gnu -Wl,--disable-new-dtags")
  set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,--disable-new-dtags")
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "-Wl,--disable-new-dtags")
endif()
