# One target a folder: sotto_library(core SOURCES a.cc ALONE b.cc DEPENDS kernels LINK fmt::fmt PRIVATE_LINK PkgConfig::libzstd)
# makes sotto_core, alias sotto::core, from sources of the current folder. Those after SOURCES are compiled in groups, so
# names in their unnamed namespaces must differ; those after ALONE are not. Those that PROGRAM names again are left out
# where only the Python package is built. COLD: code that runs once, for people, and is compiled in two thirds of the time.
# LibTorch is a PRIVATE_LINK of the few that see it: our headers are free of it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Without these settings ccache would not know an object again that was compiled with precompiled headers, or in another
# locale, as that which Python sets for what pip and pytest start.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime,locale
    ${CCACHE_PROGRAM})
endif()

add_library(sotto_options INTERFACE)
# -ffp-contract=off: the same bytes on every machine, whether or not it can fuse a multiply and an add.
# -fno-math-errno, -fno-trapping-math: let loops become SIMD; they change no result.
# -Wno-restrict to -Wno-tsan: g++ 12 warns of `"text" + std::string` (its bug 105651). In a precompiled header it also warns
# of the system's headers, as of libstdc++'s fences under the thread sanitizer.
# -Wno-deprecated-declarations: clang warns of what the algorithms of libstdc++ 12 call themselves; its -Wshadow warns of a
# structured binding that a lambda captures by name, which clang-tidy 14 wants.
target_compile_options(sotto_options INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math
                       -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual
                       "$<$<CXX_COMPILER_ID:GNU>:-Wshadow;-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-tsan>" $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
                       $<$<BOOL:${SOTTO_WARNINGS_ARE_ERRORS}>:-Werror>)
if(SOTTO_SANITIZE)
  target_compile_options(sotto_options INTERFACE -fsanitize=${SOTTO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sotto_options INTERFACE -fsanitize=${SOTTO_SANITIZE})
endif()

option(SOTTO_UNITY "compile sources in groups, each of which reads the headers of all once" ON)

# Puts files into RESULT that #include the sources, SIZE of them each; -1: all in one. They name a source by its path
# below the root, so a clone in another folder compiles the same text, and ccache knows its objects.
function(sotto_unite result name size)
  if(NOT SOTTO_UNITY)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  set(files)
  while(ARGN)
    list(LENGTH ARGN left)
    list(SUBLIST ARGN 0 ${size} group)
    if(size EQUAL -1 OR size GREATER_EQUAL left)
      set(ARGN)
    else()
      list(SUBLIST ARGN ${size} -1 ARGN)
    endif()
    list(TRANSFORM group REPLACE "(.+)" "#include \"${folder}/\\1\"\n" OUTPUT_VARIABLE lines)
    list(JOIN lines "" text)
    list(LENGTH files number)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND files ${file})
  endwhile()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

# Without this, most sources spend half of their compile time on headers of the standard library and {fmt}.
option(SOTTO_PCH "precompile headers of the standard library, {fmt} and GoogleTest" ON)

# Has a target use the precompiled header of its family: targets with the same compile options. A separate target compiles
# that header with OPTIONS and the libraries LINK, without definitions that a target of the family lacks, because g++ would
# refuse the header there. HEADERS are the family's own, besides those that all families have.
function(sotto_precompile target family)
  if(NOT SOTTO_PCH)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS;OPTIONS" ${ARGN})
  get_target_property(type ${target} TYPE)
  set(holder sotto_headers_${family})
  if(NOT TARGET ${holder})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${holder}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "int main() {}\n" @ONLY)
    if(type STREQUAL EXECUTABLE)  # its code is independent of its position in another way
      add_executable(${holder} EXCLUDE_FROM_ALL ${file})
    else()
      add_library(${holder} OBJECT EXCLUDE_FROM_ALL ${file})
    endif()
    target_link_libraries(${holder} PRIVATE sotto_options ${ARG_LINK})
    target_compile_options(${holder} PRIVATE ${ARG_OPTIONS})
    target_precompile_headers(${holder} PRIVATE
      <algorithm> <functional> <memory> <ranges> <span> <string> <vector> <fmt/format.h> ${ARG_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()

function(sotto_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;ALONE;PROGRAM;DEPENDS;LINK;PRIVATE_LINK" ${ARGN})
  if(ARG_PROGRAM AND NOT SOTTO_BUILD_PROGRAM)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_PROGRAM})
    list(REMOVE_ITEM ARG_ALONE ${ARG_PROGRAM})
  endif()
  set(size 8)
  if("torchlite" IN_LIST ARG_PRIVATE_LINK)  # whose headers take 4 to 18 seconds to read
    set(size -1)
  endif()
  sotto_unite(sources ${name} ${size} ${ARG_SOURCES})
  add_library(sotto_${name} STATIC ${sources} ${ARG_ALONE})
  add_library(sotto::${name} ALIAS sotto_${name})
  set_target_properties(sotto_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(sotto_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_features(sotto_${name} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_DEPENDS PREPEND sotto_)
  target_link_libraries(sotto_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK} $<BUILD_INTERFACE:sotto_options>)
  set(family plain)
  set(link)
  if("fmt::fmt" IN_LIST ARG_PRIVATE_LINK)  # these see its definitions
    set(family fmt)
    set(link fmt::fmt)
  endif()
  set(options)
  if(ARG_COLD)
    set(options $<$<CONFIG:Release>:-O1>)
    string(APPEND family _cold)
  endif()
  target_compile_options(sotto_${name} PRIVATE ${options})
  if(NOT "torchlite" IN_LIST ARG_PRIVATE_LINK AND NOT name STREQUAL kernels)  # Highway's headers take longer
    sotto_precompile(sotto_${name} ${family} LINK ${link} OPTIONS ${options})
  endif()
  set_property(GLOBAL APPEND PROPERTY SOTTO_LIBRARIES sotto_${name})
endfunction()
