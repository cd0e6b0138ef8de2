# Installs the libraries, the headers that users include, and a package for find_package(sotto): targets sotto::core,
# sotto::codec and so on have the same names as in this build, sotto::sotto is all of them, sotto::shared is libsotto.so with
# the C interface, and sotto::network is for a user's own networks.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY SOTTO_LIBRARIES)
list(REMOVE_ITEM libraries sotto_cli sotto_commands sotto_torch_file)  # the program's own
add_library(sotto_all INTERFACE)
add_library(sotto::sotto ALIAS sotto_all)
set_target_properties(sotto_all PROPERTIES EXPORT_NAME sotto)
target_link_libraries(sotto_all INTERFACE ${libraries})

install(TARGETS sotto_all ${libraries} EXPORT sottoTargets DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sotto_shared)
  install(TARGETS sotto_shared EXPORT sottoTargets DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET sotto_network)
  install(TARGETS sotto_network EXPORT sottoTargets)
endif()
if(TARGET sotto)
  install(TARGETS sotto DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(CODE "
  set(SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(DESTINATION \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  set(TORCH ${SOTTO_BUILD_TORCH})
  include(\"${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake\")")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sotto)
install(EXPORT sottoTargets NAMESPACE sotto:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/sottoConfig.cmake.in ${PROJECT_BINARY_DIR}/sottoConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sottoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sottoConfig.cmake ${PROJECT_BINARY_DIR}/sottoConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindTorchLite.cmake
        DESTINATION ${package_folder})
