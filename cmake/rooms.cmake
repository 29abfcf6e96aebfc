# One OBJECT library per folder of src/, in the one-way order: a room may include only rooms to its left.
# A forbidden USES stops the configuration; tools/check_rooms.py checks the includes themselves.
set(PELLUCID_ROOMS base py bytecode decompile frames symbolic graph aten source guards region protocols rows trace codegen backend runtime binding)

function(pellucid_room room)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  list(FIND PELLUCID_ROOMS ${room} own)
  foreach(used IN LISTS ARG_USES)
    list(FIND PELLUCID_ROOMS ${used} other)
    if(other EQUAL -1 OR other GREATER_EQUAL own)
      message(FATAL_ERROR "room '${room}' may not use room '${used}'")
    endif()
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cpp ${PROJECT_SOURCE_DIR}/src/${room}/*/*.cpp)
  add_library(pellucid_${room} OBJECT ${sources})
  target_include_directories(pellucid_${room} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(pellucid_${room} PUBLIC pellucid_flags)
endfunction()
