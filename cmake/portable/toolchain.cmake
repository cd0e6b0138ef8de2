# Code that runs on every Linux with glibc 2.28 or later: PROCESSOR.cmake includes this.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${SOTTO_PROCESSOR})
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET ${SOTTO_PROCESSOR}-linux-gnu.2.28)
  set(CMAKE_${language}_VISIBILITY_PRESET hidden)
  set(CMAKE_${language}_FLAGS_INIT -g0)  # zig's default would make objects thirteen times as large
endforeach()
set(CMAKE_C_COMPILER ${CMAKE_CURRENT_LIST_DIR}/zig-clang)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/zig-clang++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/zig-ar)
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/zig-ranlib)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-s)

# sysroot.sh fills it, with static libraries alone.
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../build/sysroot/${SOTTO_PROCESSOR})
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_LIBRARY_ARCHITECTURE ${SOTTO_PROCESSOR}-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/pkgconfig:${root}/usr/lib/${SOTTO_PROCESSOR}-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
set(OPENSSL_USE_STATIC_LIBS ON)

# The compiler is a script of the repository, which is as old as the clone.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_COMPILERCHECK=content CCACHE_COMPILERTYPE=clang
        CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  endforeach()
endif()
