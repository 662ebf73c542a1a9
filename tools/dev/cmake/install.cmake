# `cmake --install`: the rooms as a CMake package, so that a user's program says
#   find_package(oneflow REQUIRED)  ...  target_link_libraries(mine oneflow::tools)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rooms oneflow_proto oneflow_core sbp compiler kernels kernels_cuda actor actor_nccl tools)
install(TARGETS ${rooms} EXPORT oneflow_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS oneflow_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(room oneflow_core sbp compiler kernels actor tools)
  install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow FILES_MATCHING PATTERN "*.h" PATTERN "cuda" EXCLUDE)
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/proto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oneflow FILES_MATCHING PATTERN "*.h")
install(EXPORT oneflow_targets NAMESPACE oneflow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/oneflow-config.cmake.in ${CMAKE_BINARY_DIR}/oneflow-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/oneflow-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/oneflow-config.cmake ${CMAKE_BINARY_DIR}/oneflow-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oneflow)
