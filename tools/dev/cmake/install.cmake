# `cmake --install`: the command, and the rooms that a program with models of its own needs as a CMake package. Such a
# program says
#   find_package(oneflow REQUIRED)  ...  target_link_libraries(mine oneflow::control)
# and can compile jobs (oneflow::job alone does that), run them in its process or submit them; oneflow::study simulates
# them. What serves a cluster, the page, the benchmarks and the commands are in the command alone, and so are SQLite,
# HTTP and the like.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rooms oneflow_proto oneflow_core sbp compiler kernels kernels_cuda actor actor_nccl job control study)
install(TARGETS ${rooms} EXPORT oneflow_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS oneflow_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(room oneflow_core sbp compiler kernels actor)
  install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow
          FILES_MATCHING PATTERN "*.h" PATTERN "cuda" EXCLUDE)
endforeach()
list(JOIN servers "|" of_servers)
foreach(room job control study)
  install(DIRECTORY tools/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow/tools FILES_MATCHING PATTERN "*.h"
          REGEX "/control/(${of_servers})$" EXCLUDE)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/proto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/plugin/oneflow_core DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow)
install(EXPORT oneflow_targets NAMESPACE oneflow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/oneflow-config.cmake.in ${CMAKE_BINARY_DIR}/oneflow-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/oneflow-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/oneflow-plugin.cmake ${CMAKE_BINARY_DIR}/oneflow-config.cmake
              ${CMAKE_BINARY_DIR}/oneflow-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
