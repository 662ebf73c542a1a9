# Functions that declare the rooms.

add_library(oneflow_warnings INTERFACE)
target_compile_options(oneflow_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers -Werror>)

# Headers that are not ours and that most sources of a room come to include: parsed once per room, a third of the time of a build.
# They hide what a header of ours forgets to include; test/CMakeLists.txt compiles every header without them.
set(value_headers <algorithm> <cstdint> <functional> <map> <memory> <optional> <set> <string> <utility> <variant> <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/types/span.h>)
set(message_headers ${value_headers} <google/protobuf/map.h> <google/protobuf/message.h> <google/protobuf/repeated_field.h>)
set(thread_headers ${message_headers} <condition_variable> <deque> <mutex> <thread> <absl/synchronization/mutex.h> <absl/time/time.h>
    <glog/logging.h>)
set(vector_headers ${value_headers} <cmath> <cstring> <span>)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND vector_headers <immintrin.h>)
endif()

# room(NAME [SKIP path...] LINKS target... HEADERS header...): a static library of all sources below NAME/, less the skipped ones,
# compiled with these headers precompiled. `HEADERS REUSE_FROM room`: with another's.
function(room name)
  cmake_parse_arguments(ROOM "" "" "SKIP;LINKS;HEADERS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  foreach(skipped IN LISTS ROOM_SKIP)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/${name}/${skipped}(/|$)")
  endforeach()
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME oneflow_${name})
  if(name STREQUAL "oneflow_core")
    set_target_properties(${name} PROPERTIES OUTPUT_NAME oneflow_core)
  endif()
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/oneflow>)
  target_link_libraries(${name} PUBLIC ${ROOM_LINKS} Threads::Threads PRIVATE $<BUILD_INTERFACE:oneflow_warnings>)
  if(NOT "REUSE_FROM" IN_LIST ROOM_HEADERS)
    list(PREPEND ROOM_HEADERS PRIVATE)
  endif()
  target_precompile_headers(${name} ${ROOM_HEADERS})
endfunction()

# proto/*.proto to oneflow_proto, with gRPC services. Generated headers are included as "proto/plan.pb.h".
function(proto_room)
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/*.proto)
  set(out ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out}/proto)
  set(generated)
  foreach(proto IN LISTS protos)
    get_filename_component(stem ${proto} NAME_WE)
    set(made ${out}/proto/${stem}.pb.cc ${out}/proto/${stem}.pb.h)
    set(grpc_args)
    file(STRINGS ${proto} services REGEX "^service ")
    if(services)
      list(APPEND made ${out}/proto/${stem}.grpc.pb.cc ${out}/proto/${stem}.grpc.pb.h)
      set(grpc_args --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(OUTPUT ${made} DEPENDS ${proto} COMMAND protobuf::protoc -I${CMAKE_SOURCE_DIR} --cpp_out=${out} ${grpc_args}
                       proto/${stem}.proto WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    list(APPEND generated ${made})
  endforeach()
  add_library(oneflow_proto STATIC ${generated})
  target_include_directories(oneflow_proto PUBLIC $<BUILD_INTERFACE:${out}> $<INSTALL_INTERFACE:include/oneflow>)
  target_link_libraries(oneflow_proto PUBLIC gRPC::grpc++ protobuf::libprotobuf)
endfunction()

# kernels/cuda/* where the toolkit is found; otherwise kernels/cuda_absent.cc says so. No #ifdef anywhere. A macro, because a language
# can be enabled only where the whole project sees it.
macro(cuda_kernels)
  target_compile_options(kernels PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O3 $<$<BOOL:${ONEFLOW_NATIVE}>:-march=native>>)
  if(ONEFLOW_CUDA AND NOT ONEFLOW_SANITIZE)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER AND ONEFLOW_CUDA AND NOT ONEFLOW_SANITIZE)
    enable_language(CUDA)
    # Bookworm's CMake knows nvcc up to C++17.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    find_package(CUDAToolkit REQUIRED)
    find_library(CUDNN cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
    find_library(NCCL nccl HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cc)
    add_library(kernels_cuda STATIC ${cuda_sources})
    # 90a: Hopper. -real: machine code only; PTX of an "a" architecture runs on no other.
    set_target_properties(kernels_cuda PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES 90a-real OUTPUT_NAME oneflow_kernels_cuda)
    target_compile_options(kernels_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda -O3 -Werror=all-warnings -Xcompiler=-Wall>)
    target_include_directories(kernels_cuda PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                               $<INSTALL_INTERFACE:include/oneflow>)
    # Each needs the other: the kernels' tables list what is here, and devices here are DeviceContexts.
    target_link_libraries(kernels_cuda PUBLIC CUDA::cudart CUDA::cublasLt CUDA::cublas ${CUDNN} INTERFACE kernels
                          PRIVATE $<BUILD_INTERFACE:oneflow_warnings>)
    target_link_libraries(kernels PUBLIC kernels_cuda)
    leave_out(kernels cuda_absent.cc)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: CUDA kernels are built")
  else()
    message(STATUS "no CUDA toolkit: CUDA devices will be reported as absent")
  endif()
endmacro()

# actor/collective/nccl_collectives.cc where there are CUDA kernels, nccl_absent.cc otherwise.
function(nccl_collectives)
  if(TARGET kernels_cuda)
    target_link_libraries(actor PUBLIC ${NCCL})
    leave_out(actor nccl_absent.cc)
  else()
    leave_out(actor nccl_collectives.cc)
  endif()
endfunction()

# Takes the source file of that name out of a target.
function(leave_out target name)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/${name}$")
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()
