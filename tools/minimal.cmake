# minimal.cmake -- with OPMETER_MINIMAL=ON what reads traces is built alone: importers, analyses, SQL,
# exports, the web page and the command line, with POSIX.1-2008 and threads. It is what systems that
# are not Linux get. The recorder, its plugins and the engines are left out.
if(OPMETER_MINIMAL)
  target_compile_options(opmeter_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/src/base/posix.h>")
  if(APPLE)
    target_compile_definitions(opmeter_flags INTERFACE _DARWIN_C_SOURCE)
  endif()
endif()

# opm_leave_out(VAR FOLDER NAME...): takes the files src/FOLDER/NAME.c off a list.
function(opm_leave_out var folder)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/src/${folder}/)
  list(TRANSFORM ARGN APPEND .c)
  list(REMOVE_ITEM ${var} ${ARGN})
  set(${var} ${${var}} PARENT_SCOPE)
endfunction()

# base/system.h is kept by one of two files, base/posix.h by none where GNU's functions are.
macro(opm_leave_out_other_system var)
  if(OPMETER_MINIMAL)
    opm_leave_out(${var} base system_linux)
  else()
    opm_leave_out(${var} base posix system_posix)
  endif()
endmacro()

macro(opm_leave_out_commands var)
  if(OPMETER_MINIMAL)
    # What left_out.c stands for.
    opm_leave_out(${var} cli cmd_run run_env run_files run_generated run_report cmd_record cmd_zoo
      cmd_bench bench_files bench_picture bench_print bench_side cmd_doctor doctor_cpu doctor_libs
      doctor_system whatif_measure)
    list(APPEND ${var} src/run/gguf.c)
  else()
    opm_leave_out(${var} cli left_out)
  endif()
endmacro()

# What else is built, tested and installed of a minimal build.
macro(opm_minimal_rest)
  set_target_properties(opmeter_rec_objects opmeter_static opmeter_shared opmeter_cuda_objects
    opmeter_cuda opmeter_llama_objects opmeter_llama opmeter_engine_core opmeter_run_shared
    PROPERTIES EXCLUDE_FROM_ALL ON)
  if(TARGET PkgConfig::CMOCKA)
    add_subdirectory(tests/unit)
  endif()
  install(TARGETS opmeter_cli opmeter_trace_shared)
  install(FILES include/opmeter/opmeter_trace.h include/opmeter/opmeter_arrow.h
    include/opmeter/opmeter_error.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opmeter)
  install(FILES LICENSE THIRD-PARTY-NOTICES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
endmacro()
