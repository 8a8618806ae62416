# How the project's targets are made. Flags sit on interface targets, never in CMAKE_CXX_FLAGS.

option(PGWEIR_WERROR "Treat warnings as errors (our presets do, packagers need not)" OFF)
option(PGWEIR_SIMULATED_FAULTS "Let the simulator decide at FAULT() places" OFF)
set(PGWEIR_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")

find_program(PGWEIR_CCACHE ccache)
if(PGWEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PGWEIR_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${PGWEIR_CCACHE}")
endif()

add_library(pgweir_flags INTERFACE)
target_compile_features(pgweir_flags INTERFACE cxx_std_20)
target_include_directories(pgweir_flags INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(pgweir_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wswitch-enum -Wnon-virtual-dtor
  $<$<BOOL:${PGWEIR_WERROR}>:-Werror>)
if(PGWEIR_SIMULATED_FAULTS)
  target_compile_definitions(pgweir_flags INTERFACE PGWEIR_SIMULATED_FAULTS)
endif()
if(PGWEIR_SANITIZE)
  target_compile_options(pgweir_flags INTERFACE
    -fsanitize=${PGWEIR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # GCC 12 warns about the standard library's own code when it is instrumented.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(pgweir_flags INTERFACE -fsanitize=${PGWEIR_SANITIZE})
endif()

# pgweir_module(NAME SOURCES … DEPENDS … [LIBRARIES …])
#
# One folder of src as a static library. DEPENDS is the only list of the modules it may include;
# test/tidy compares it with the #include lines. LIBRARIES are foreign ones, linked privately.
function(pgweir_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LIBRARIES")
  set(target pgweir_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(visible PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  else()
    add_library(${target} INTERFACE)
    set(visible INTERFACE)
  endif()
  target_link_libraries(${target} ${visible} pgweir_flags)
  foreach(depend IN LISTS arg_DEPENDS)
    target_link_libraries(${target} ${visible} pgweir_${depend})
  endforeach()
endfunction()

# pgweir_unit_test(MODULE SOURCES … [DEPENDS …] [LIBRARIES …])
#
# The unit tests of one module as one program; each TEST_CASE becomes a ctest of its own.
function(pgweir_unit_test module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LIBRARIES")
  set(target ${module}_test)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE pgweir_catch_main pgweir_${module} ${arg_LIBRARIES})
  foreach(depend IN LISTS arg_DEPENDS)
    target_link_libraries(${target} PRIVATE pgweir_${depend})
  endforeach()
  target_compile_definitions(${target} PRIVATE
    PGWEIR_SOURCE_DIR="${PROJECT_SOURCE_DIR}" PGWEIR_TEST_DATA="${PROJECT_SOURCE_DIR}/test/data")
  catch_discover_tests(${target} TEST_PREFIX "${module}: " PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
