# Imports LibTorch from a Python wheel (CPU or CUDA) or an unpacked archive as target `torchlite`. TorchConfig.cmake is not
# used, because with a CUDA wheel it insists on a whole CUDA toolkit, which plain C++ against that wheel does not need.
# Found through TORCH_ROOT (the folder that holds include/ and lib/), or CMAKE_PREFIX_PATH as torch.utils.cmake_prefix_path
# prints it, or the torch of the Python in PATH.
if(NOT TORCH_ROOT)
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    foreach(candidate ${prefix} ${prefix}/../..)
      if(EXISTS ${candidate}/lib/libtorch_cpu.so)
        get_filename_component(TORCH_ROOT ${candidate} ABSOLUTE)
      endif()
    endforeach()
  endforeach()
endif()
if(NOT TORCH_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_FOUND)
    # -E: pip hides the installed packages from a build behind PYTHONPATH, and an installed torch is the one to use.
    execute_process(COMMAND ${Python3_EXECUTABLE} -E -c
      "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
      OUTPUT_VARIABLE TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
set(TORCH_ROOT "${TORCH_ROOT}" CACHE PATH "the folder of LibTorch that holds include/ and lib/")

include(FindPackageHandleStandardArgs)
find_file(TorchLite_HEADER ATen/ATen.h PATHS ${TORCH_ROOT}/include NO_DEFAULT_PATH)
find_library(TorchLite_LIBRARY torch_cpu PATHS ${TORCH_ROOT}/lib NO_DEFAULT_PATH)
find_package_handle_standard_args(TorchLite REQUIRED_VARS TorchLite_LIBRARY TorchLite_HEADER
  REASON_FAILURE_MESSAGE "pass -DCMAKE_PREFIX_PATH=DIR, with DIR as python prints torch.utils.cmake_prefix_path")

if(TorchLite_FOUND AND NOT TARGET torchlite)
  add_library(torchlite INTERFACE IMPORTED)
  target_include_directories(torchlite SYSTEM INTERFACE ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
  target_compile_definitions(torchlite INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # One joined item a library: CMake would de-duplicate a repeated bare "--no-as-needed", and the CUDA library would be lost.
  target_link_libraries(torchlite INTERFACE
    "-Wl,--push-state,--no-as-needed,${TORCH_ROOT}/lib/libtorch_cpu.so,--pop-state" ${TORCH_ROOT}/lib/libc10.so)
  if(EXISTS ${TORCH_ROOT}/lib/libtorch_cuda.so)
    target_link_libraries(torchlite INTERFACE
      "-Wl,--push-state,--no-as-needed,${TORCH_ROOT}/lib/libtorch_cuda.so,--pop-state" ${TORCH_ROOT}/lib/libc10_cuda.so)
    target_link_options(torchlite INTERFACE -Wl,--allow-shlib-undefined)
  endif()
  target_link_options(torchlite INTERFACE -Wl,-rpath,${TORCH_ROOT}/lib)
endif()

# What c10d's NCCL needs to be compiled, in TorchLite_NCCL_INCLUDES: the headers of NCCL and CUDA that a CUDA wheel of torch
# depends on, and those parts of the toolkit (crt/, nv/) that are in separate wheels. Empty where something is missing.
set(TorchLite_NCCL_INCLUDES)
if(TorchLite_FOUND AND EXISTS ${TORCH_ROOT}/lib/libtorch_cuda.so)
  file(GLOB wheels ${TORCH_ROOT}/../nvidia/*/include)
  set(missing)
  foreach(header nccl.h cuda_runtime_api.h crt/host_config.h nv/target)
    string(MAKE_C_IDENTIFIER TorchLite_${header} variable)
    find_path(${variable} ${header} PATHS ${wheels} /usr/local/cuda/include PATH_SUFFIXES cccl)
    list(APPEND TorchLite_NCCL_INCLUDES ${${variable}})
    if(NOT ${variable})
      list(APPEND missing ${header})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    message(STATUS "--backend nccl is left out: ${missing} not found; install nvidia-cuda-crt and nvidia-cuda-cccl of torch's CUDA")
    set(TorchLite_NCCL_INCLUDES)
  endif()
endif()
