set(SOTTO_PROCESSOR aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/toolchain.cmake)
