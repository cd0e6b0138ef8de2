# One target a folder: sotto_library(core SOURCES a.cc DEPENDS kernels LINK fmt::fmt PRIVATE_LINK PkgConfig::libzstd)
# makes sotto_core, alias sotto::core, from sources of the current folder. LibTorch is a
# PRIVATE_LINK of the few that see it: our headers are free of it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(sotto_options INTERFACE)
# -ffp-contract=off: the same bytes on every machine, whether or not it can fuse a multiply and an add.
# -fno-math-errno, -fno-trapping-math: let loops become SIMD; they change no result.
# -Wno-restrict: g++ 12 warns of `"text" + std::string` (its bug 105651).
target_compile_options(sotto_options INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math
                       -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<BOOL:${SOTTO_WARNINGS_ARE_ERRORS}>:-Werror>)
if(SOTTO_SANITIZE)
  target_compile_options(sotto_options INTERFACE -fsanitize=${SOTTO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sotto_options INTERFACE -fsanitize=${SOTTO_SANITIZE})
endif()

function(sotto_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK;PRIVATE_LINK" ${ARGN})
  add_library(sotto_${name} STATIC ${ARG_SOURCES})
  add_library(sotto::${name} ALIAS sotto_${name})
  set_target_properties(sotto_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(sotto_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_features(sotto_${name} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_DEPENDS PREPEND sotto_)
  target_link_libraries(sotto_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK} $<BUILD_INTERFACE:sotto_options>)
  set_property(GLOBAL APPEND PROPERTY SOTTO_LIBRARIES sotto_${name})
endfunction()
