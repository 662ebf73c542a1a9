# Functions that declare the rooms.

add_library(oneflow_warnings INTERFACE)
target_compile_options(oneflow_warnings INTERFACE
                       $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers -Werror>)

# Headers that are not ours and that most sources of a room come to include: parsed once per room, a third of the time
# of a build. They hide what a header of ours forgets to include of them; test/repository/includes_test.cc does not.
set(value_headers <algorithm> <cstdint> <functional> <map> <memory> <optional> <set> <string> <utility> <variant>
    <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/types/span.h>)
set(message_headers ${value_headers} <google/protobuf/map.h> <google/protobuf/message.h>
    <google/protobuf/repeated_field.h>)
set(thread_headers ${message_headers} <condition_variable> <deque> <mutex> <thread> <absl/synchronization/mutex.h>
    <absl/time/time.h>
    <glog/logging.h>)
set(vector_headers ${value_headers} <cmath> <cstring> <span>)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND vector_headers <immintrin.h>)
endif()

# Headers on which half of a build hangs, and the other half does not: a source that reads one shares no group with a
# source that does not, so that an edit of it compiles what reads it and nothing else.
set(awaited_headers proto/plan.pb.h kernels/kernel.h)

# Sets `result` to those of the awaited headers that a source or header (a path from the root of the project) comes to
# include, directly or by headers of ours.
function(awaited_of result file)
  get_property(known GLOBAL PROPERTY "awaited ${file}" SET)
  if(NOT known)
    set(found)
    if(file IN_LIST awaited_headers)
      list(APPEND found ${file})
    endif()
    set_property(GLOBAL PROPERTY "awaited ${file}" "${found}")  # for headers that come to include themselves
    string(REGEX REPLACE "\\.pb\\.h$" ".proto" written ${file})
    set(lines)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${written})
      file(STRINGS ${CMAKE_SOURCE_DIR}/${written} lines REGEX "^(#include|import) \"[a-z0-9_/.]+\\.(h|proto)\"")
    endif()
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*$" "\\1" included "${line}")
      string(REGEX REPLACE "\\.proto$" ".pb.h" included ${included})
      awaited_of(of_included ${included})
      list(APPEND found ${of_included})
    endforeach()
    list(REMOVE_DUPLICATES found)
    list(SORT found)
    set_property(GLOBAL PROPERTY "awaited ${file}" "${found}")
  endif()
  get_property(found GLOBAL PROPERTY "awaited ${file}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Sets `result` to sources that include the given ones in turn, up to ONEFLOW_GROUPS at a time: what they all include is
# parsed once, which halves the time of a build from nothing. Those of a group share unnamed namespaces. They read the
# same of the awaited headers, but for a few sources, which are added to what reads more. With ONEFLOW_GROUPS=OFF each
# is compiled by itself.
function(grouped result)
  if(NOT ONEFLOW_GROUPS)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(most ${ONEFLOW_GROUPS})
  if(NOT most MATCHES "^[0-9]+$")
    set(most 60)
  endif()
  math(EXPR few "${most} / 5")
  set(kinds)
  foreach(source IN LISTS ARGN)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    awaited_of(kind ${source})
    list(LENGTH kind read)
    string(MAKE_C_IDENTIFIER "${read} ${kind}" kind)  # what reads less is before what reads more
    list(APPEND kinds ${kind})
    list(APPEND of_${kind} ${source})
  endforeach()
  list(REMOVE_DUPLICATES kinds)
  list(SORT kinds)
  list(LENGTH awaited_headers all)
  string(MAKE_C_IDENTIFIER "${all} ${awaited_headers}" most_kind)
  set(groups)
  foreach(kind IN LISTS kinds)
    list(LENGTH of_${kind} sources)
    list(GET kinds -1 last)
    if(sources LESS_EQUAL few AND NOT kind STREQUAL last AND (kind MATCHES "^_0" OR last MATCHES "^_${all}"))
      list(APPEND of_${last} ${of_${kind}})
      continue()
    endif()
    list(SORT of_${kind})
    math(EXPR parts "(${sources} + ${most} - 1) / ${most}")
    foreach(part RANGE 1 ${parts})
      math(EXPR begin "(${part} - 1) * ${sources} / ${parts}")
      math(EXPR count "${part} * ${sources} / ${parts} - ${begin}")
      list(SUBLIST of_${kind} ${begin} ${count} together)
      list(GET together 0 first)
      list(TRANSFORM together REPLACE "(.+)" "#include \"\\1\"\n")
      list(JOIN together "" text)
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/groups/${first} CONTENT "${text}" @ONLY)
      list(APPEND groups ${CMAKE_BINARY_DIR}/generated/groups/${first})
    endforeach()
  endforeach()
  set(${result} ${groups} PARENT_SCOPE)
endfunction()

# room(NAME [FOLDERS path...] [SKIP path...] LINKS target... HEADERS header...): a static library of all sources below
# the folders, or NAME/ if none is given, less the skipped ones, whose paths begin at the first folder. They are
# compiled with these headers precompiled. `HEADERS REUSE_FROM room`: with another's.
function(room name)
  cmake_parse_arguments(ROOM "" "" "FOLDERS;SKIP;LINKS;HEADERS" ${ARGN})
  if(NOT ROOM_FOLDERS)
    set(ROOM_FOLDERS ${name})
  endif()
  list(TRANSFORM ROOM_FOLDERS PREPEND "${CMAKE_SOURCE_DIR}/")
  list(GET ROOM_FOLDERS 0 first)
  list(TRANSFORM ROOM_FOLDERS APPEND "/*.cc")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ROOM_FOLDERS})
  foreach(skipped IN LISTS ROOM_SKIP)
    list(FILTER sources EXCLUDE REGEX "^${first}/${skipped}(/|$)")
  endforeach()
  grouped(sources ${sources})
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

# listed(ROOM FUNCTION TYPE HEADER FOLDER SUFFIX [ENDING ending] [SKIP stem...]): adds to the room a source that defines
# `std::vector<TYPE> FUNCTION()`, the results of one function for each FOLDER/NAME<ending>.cc: `TYPE NameSUFFIX()`. So a
# file that is added is listed by itself, and one that does not define its function does not link.
function(listed room function type header folder suffix)
  cmake_parse_arguments(PARSE_ARGV 6 LIST "" "ENDING" "SKIP")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*${LIST_ENDING}.cc)
  set(declarations)
  set(calls)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM stem)
    if(stem IN_LIST LIST_SKIP)
      continue()
    endif()
    string(REGEX REPLACE "^(.+)${LIST_ENDING}$" "\\1" stem ${stem})
    string(REPLACE "_" ";" words ${stem})
    set(name)
    foreach(word IN LISTS words)
      string(SUBSTRING ${word} 0 1 first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(TOUPPER ${first} first)
      string(APPEND name ${first}${rest})
    endforeach()
    string(APPEND declarations "${type} ${name}${suffix}();\n")
    list(APPEND calls "${name}${suffix}()")
  endforeach()
  list(JOIN calls ", " calls)
  set(file ${CMAKE_BINARY_DIR}/generated/lists/${function}.cc)
  file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${header}\"\n\nnamespace oneflow {\n\n${declarations}
std::vector<${type}> ${function}() { return {${calls}}; }\n\n}  // namespace oneflow\n" @ONLY)
  target_sources(${room} PRIVATE ${file})
endfunction()

# embedded(ROOM FUNCTION FOLDER ENDING): adds to the room a source that defines
# `std::map<std::string, std::string_view> FUNCTION()`: the bytes of the files FOLDER/*ENDING by their names without the
# ending. A file that is added is part of the program by itself.
function(embedded room function folder ending)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*${ending})
  set(embed ${CMAKE_SOURCE_DIR}/tools/dev/cmake/embed.cmake)
  set(declarations)
  set(rows)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM stem)
    string(MAKE_C_IDENTIFIER "${function}_${stem}" name)
    set(made ${CMAKE_BINARY_DIR}/generated/embedded/${name}.cc)
    add_custom_command(OUTPUT ${made} DEPENDS ${file} ${embed}
                       COMMAND ${CMAKE_COMMAND} -DFROM=${file} -DTO=${made} -DNAME=${name} -P ${embed})
    target_sources(${room} PRIVATE ${made})
    set_source_files_properties(${made} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    string(APPEND declarations "std::string_view ${name}();\n")
    string(APPEND rows "{\"${stem}\", pb::${name}()}, ")
  endforeach()
  set(file ${CMAKE_BINARY_DIR}/generated/embedded/${function}.cc)
  file(CONFIGURE OUTPUT ${file} CONTENT "#include <map>\n#include <string>\n#include <string_view>\n
namespace oneflow {\n\nnamespace pb {\n${declarations}}  // namespace pb\n
std::map<std::string, std::string_view> ${function}() { return {${rows}}; }\n\n}  // namespace oneflow\n" @ONLY)
  target_sources(${room} PRIVATE ${file})
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
    file(STRINGS ${proto} imports REGEX "^import \"proto/")
    list(TRANSFORM imports REPLACE "^import \"(.*)\";" "${CMAKE_SOURCE_DIR}/\\1")
    add_custom_command(OUTPUT ${made} DEPENDS ${proto} ${imports} COMMAND protobuf::protoc -I${CMAKE_SOURCE_DIR}
                       --cpp_out=${out} ${grpc_args}
                       proto/${stem}.proto WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    list(APPEND generated ${made})
  endforeach()
  # The config's fields with the comments beside them, for its help (tools/job/field_help.cc).
  set(described ${out}/proto/job_described)
  add_custom_command(OUTPUT ${described}.cc DEPENDS ${CMAKE_SOURCE_DIR}/proto/job.proto
                     ${CMAKE_SOURCE_DIR}/proto/field_options.proto
                                                    ${CMAKE_SOURCE_DIR}/tools/dev/cmake/embed.cmake
    COMMAND protobuf::protoc -I${CMAKE_SOURCE_DIR} --include_source_info --descriptor_set_out=${described}.pb
    proto/job.proto
    COMMAND ${CMAKE_COMMAND} -DFROM=${described}.pb -DTO=${described}.cc -DNAME=JobDescribed -P
    ${CMAKE_SOURCE_DIR}/tools/dev/cmake/embed.cmake
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  list(APPEND generated ${described}.cc)
  add_library(oneflow_proto STATIC ${generated})
  target_include_directories(oneflow_proto PUBLIC $<BUILD_INTERFACE:${out}> $<INSTALL_INTERFACE:include/oneflow>)
  target_link_libraries(oneflow_proto PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  # No step waits for what is here, which compiles in three quarters of the time so.
  target_compile_options(oneflow_proto PRIVATE -O1)
endfunction()

# Finds the CUDA toolkit and its libraries. kernels/cuda/* and what calls NCCL are built where the toolkit is; otherwise
# the *_absent.cc say that it is not. No #ifdef anywhere. A macro, because a language can be enabled only where the
# whole project sees it.
macro(find_cuda)
  if(ONEFLOW_CUDA AND NOT ONEFLOW_SANITIZE)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER AND ONEFLOW_CUDA AND NOT ONEFLOW_SANITIZE)
    enable_language(CUDA)
    # Bookworm's CMake knows nvcc up to C++17.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    # And looks for the library of NVTX 2, which CUDA 13 does not have any more, without asking whether it is there.
    if(NOT TARGET CUDA::nvToolsExt)
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit REQUIRED)
    find_library(CUDNN cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
    find_library(NCCL nccl HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
    find_path(CUDNN_FRONTEND cudnn_frontend.h HINTS ${CMAKE_SOURCE_DIR}/build/python/include)
    if(NOT CUDNN_FRONTEND)
      message(FATAL_ERROR "cuDNN's headers for C++ are missing: cudnn_frontend.h. Install them by\n"
                          "  python3 -m pip install --target build/python --no-deps nvidia-cudnn-frontend==1.14.1\n"
                          "or name their folder by -DCUDNN_FRONTEND=FOLDER, "
                          "or build for CPUs alone by -DONEFLOW_CUDA=OFF")
    endif()
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: CUDA kernels are built")
  else()
    message(STATUS "no CUDA toolkit: CUDA devices will be reported as absent")
  endif()
endmacro()

# The kinds of kernels that this machine's processor takes, as kernels/cpu/dispatch.cc prefers them, and what those
# build on. Tiles count where the system grants them, as it does not in every container.
function(native_variants result)
  file(STRINGS /proc/cpuinfo described REGEX "^(flags|vendor_id)")
  set(kinds portable)
  if(described MATCHES " avx2 ")
    set(kinds avx2)
  endif()
  if(described MATCHES " avx512f " AND described MATCHES " avx512bw " AND described MATCHES " avx512dq "
     AND described MATCHES " avx512vl ")
    set(kinds avx512)
    if(described MATCHES " avx512_bf16 ")
      if(described MATCHES " amx_bf16 ")
        include(CheckCXXSourceRuns)
        check_cxx_source_runs("#include <sys/syscall.h>
                               #include <unistd.h>
                               int main() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 0 : 1; }"
                              ONEFLOW_TILES_ARE_GRANTED)
      endif()
      if(ONEFLOW_TILES_ARE_GRANTED)
        set(kinds amx avx512_bf16)
      elseif(NOT described MATCHES "GenuineIntel")
        set(kinds avx512_bf16)
      endif()
    endif()
  endif()
  set(${result} ${kinds} PARENT_SCOPE)
endfunction()

# kernels/cpu/* compiled once for each kind of processor (kernels/cpu/variant.h), and what chooses among them. What was
# compiled for one is linked into one object in which all names but its entry are its own: COMDAT groups are resolved
# within, or the linker would take one variant's inline functions for all.
function(cpu_kernels)
  set(avx512_flags -march=x86-64-v4 -mtune=icelake-server -mprefer-vector-width=512)
  set(avx512_bf16_flags ${avx512_flags} -mavx512bf16)
  set(avx2_flags -march=x86-64-v3 -mtune=haswell)
  set(amx_flags ${avx512_bf16_flags} -DONEFLOW_TILES=1)
  set(amx_twin_flags ${avx512_bf16_flags} -DONEFLOW_TILES=2)
  set(variants portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(variants amx avx512_bf16 avx512 avx2 portable)
    if(BUILD_TESTING)
      list(APPEND variants amx_twin)
    endif()
  endif()
  if(ONEFLOW_CPU_KERNELS STREQUAL "native")
    native_variants(variants)
    message(STATUS "CPU kernels: those that this processor takes (${variants})")
  elseif(ONEFLOW_CPU_KERNELS)
    set(variants ${ONEFLOW_CPU_KERNELS})
    if(variants MATCHES "amx" AND NOT "avx512_bf16" IN_LIST variants)
      message(FATAL_ERROR
              "ONEFLOW_CPU_KERNELS is '${variants}': kernels on tiles have most of what they are "
              "from avx512_bf16, which has to be among them")
    endif()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/*.cc)
  list(FILTER sources EXCLUDE REGEX "/(device|dispatch|random_fill)\\.cc$")
  # What differs where there are tiles: those variants have all else from the one that they build on.
  set(by_tiles)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} tiles REGEX "#include \"kernels/cpu/(tile|small_gemm)")
    if(tiles)
      list(APPEND by_tiles ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${by_tiles})
  # Each by itself: most of their time is the optimizer's, so that groups save nothing and make an edit of one longer.
  set(exact ${CMAKE_SOURCE_DIR}/kernels/cpu/random_fill.cc)
  # The same numbers on every processor.
  set_source_files_properties(${exact} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
  find_program(RELOCATING_LINKER NAMES ${CMAKE_LIBRARY_ARCHITECTURE}-ld.bfd ld.bfd ld REQUIRED)
  set(declared)
  foreach(variant IN LISTS variants)
    set(of_variant kernels_cpu_${variant})
    set(others kernels_cpu_avx512_bf16_others)
    add_library(${of_variant} OBJECT ${by_tiles})
    set(targets ${of_variant})
    if(NOT variant MATCHES "^amx")
      set(others ${of_variant}_others)
      add_library(${others} OBJECT ${sources} ${exact})
      list(APPEND targets ${others})
    endif()
    foreach(target IN LISTS targets)
      target_compile_options(${target} PRIVATE -O3 -fno-gnu-unique -Wno-psabi ${${variant}_flags})
      target_compile_definitions(${target} PRIVATE ONEFLOW_CPU_VARIANT=${variant})
      target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
      target_link_libraries(${target} PRIVATE oneflow_core DNNL::dnnl OpenMP::OpenMP_CXX oneflow_warnings)
    endforeach()
    target_precompile_headers(${of_variant} PRIVATE ${vector_headers})
    if(NOT variant MATCHES "^amx")
      target_precompile_headers(${others} REUSE_FROM ${of_variant})
    endif()
    set(object ${CMAKE_BINARY_DIR}/kernels.dir/${variant}.o)
    set(objects "$<FILTER:$<TARGET_OBJECTS:${of_variant}>,EXCLUDE,\\.[gp]ch$>"
        "$<FILTER:$<TARGET_OBJECTS:${others}>,EXCLUDE,\\.[gp]ch$>")
    add_custom_command(OUTPUT ${object} DEPENDS ${of_variant} ${others} ${objects} COMMAND_EXPAND_LISTS VERBATIM
      COMMENT "Joining the kernels of ${variant}"
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/kernels.dir
      COMMAND ${RELOCATING_LINKER} -r --force-group-allocation -o ${object}.all ${objects}
      COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=oneflow_cpu_${variant} ${object}.all ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_sources(kernels PRIVATE ${object})
    string(APPEND declared " F(${variant})")
  endforeach()
  target_sources(kernels PRIVATE kernels/cpu/device.cc kernels/cpu/dispatch.cc)
  set_source_files_properties(kernels/cpu/dispatch.cc PROPERTIES COMPILE_OPTIONS
                              "-DONEFLOW_CPU_VARIANTS(F)=${declared}")
  target_compile_options(kernels PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O3>)
endfunction()

# The library kernels_cuda, which `kernels` links: kernels/cuda/* and NCCL where the toolkit is found,
# kernels/cuda_absent.cc elsewhere.
function(cuda_kernels)
  if(NOT CUDAToolkit_FOUND)
    add_library(kernels_cuda STATIC kernels/cuda_absent.cc)
    set_target_properties(kernels_cuda PROPERTIES OUTPUT_NAME oneflow_kernels_cuda)
    target_link_libraries(kernels_cuda INTERFACE kernels PRIVATE $<BUILD_INTERFACE:oneflow_warnings>
                          $<BUILD_INTERFACE:oneflow_core>)
    target_link_libraries(kernels PUBLIC kernels_cuda)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cc)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
  grouped(cuda_sources ${cuda_sources})
  add_library(kernels_cuda STATIC ${sources} ${cuda_sources})
  # 90a-real, the default: Hopper's machine code only. PTX of an "a" architecture runs on no other; that of 90
  # ("90-virtual") does on later ones.
  set_target_properties(kernels_cuda PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES "${ONEFLOW_CUDA_ARCHITECTURES}"
                        OUTPUT_NAME oneflow_kernels_cuda)
  target_compile_options(kernels_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda -O3 -Werror=all-warnings -Xcompiler=-Wall>)
  target_include_directories(kernels_cuda PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include/oneflow>)
  # C++17, where functions of std::string are libstdc++'s and no object's, for which a linker would take this one. -O1,
  # since it describes graphs to cuDNN before any step.
  set_source_files_properties(kernels/cuda/cudnn_attention.cc PROPERTIES COMPILE_OPTIONS
                              "-isystem${CUDNN_FRONTEND};-std=c++17;-O1"
    COMPILE_DEFINITIONS
    ONEFLOW_NVRTC_BUILTINS="libnvrtc-builtins.so.${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
  # Each needs the other: the kernels' tables list what is here, and devices here are DeviceContexts.
  target_link_libraries(kernels_cuda PUBLIC CUDA::cudart ${CUDNN} ${CMAKE_DL_LIBS} INTERFACE kernels
                        PRIVATE $<BUILD_INTERFACE:oneflow_warnings>)
  # Not linked, but loaded when it is called. Its major version is the toolkit's.
  set_source_files_properties(kernels/cuda/cublaslt_library.cc PROPERTIES
    COMPILE_DEFINITIONS ONEFLOW_CUBLASLT="libcublasLt.so.${CUDAToolkit_VERSION_MAJOR}")
  target_link_libraries(kernels PUBLIC kernels_cuda)
endfunction()

# The library actor_nccl: what calls NCCL where the toolkit is found, collective/nccl_absent.cc elsewhere.
function(nccl_collectives)
  if(CUDAToolkit_FOUND)
    add_library(actor_nccl STATIC actor/collective/nccl_collectives.cc)
    target_link_libraries(actor_nccl PUBLIC CUDA::cudart ${NCCL})
  else()
    add_library(actor_nccl STATIC actor/collective/nccl_absent.cc)
  endif()
  set_target_properties(actor_nccl PROPERTIES OUTPUT_NAME oneflow_actor_nccl)
  target_link_libraries(actor_nccl PUBLIC actor PRIVATE $<BUILD_INTERFACE:oneflow_warnings>)
endfunction()

# plugin_headers(ROOM): gives the room `oneflow_core/plugin_abi.h`, made of the headers that plugins see.
function(plugin_headers room)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/oneflow_core/*.h)
  file(GLOB of_kernels CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/kernels/*.h)
  list(APPEND headers ${of_kernels} actor/plugin.h actor/host_function.h actor/data/source.h)
  list(SORT headers)
  list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  list(JOIN headers " " text)
  set(script ${CMAKE_SOURCE_DIR}/tools/dev/cmake/plugin_abi.cmake)
  set(made ${CMAKE_BINARY_DIR}/generated/plugin/oneflow_core/plugin_abi.h)
  add_custom_command(OUTPUT ${made} DEPENDS ${files} ${script}
                     COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DHEADERS=${text}" -DTO=${made} -P ${script})
  add_custom_target(plugin_abi DEPENDS ${made})
  target_sources(${room} PRIVATE ${made})
  add_dependencies(${room} plugin_abi)
  target_include_directories(${room} PUBLIC $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/generated/plugin>)
endfunction()
