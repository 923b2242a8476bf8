# Warnings, sanitizers, and the one way a library of ours is declared.
add_library(isthmus_options INTERFACE)
target_compile_options(isthmus_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(ISTHMUS_SANITIZE)
  # Sanitizers make g++ 12 warn about values that it only loses track of, so warnings do not stop this build.
  target_compile_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -Wno-error)
  target_link_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE})
  target_compile_definitions(isthmus_options INTERFACE ISTHMUS_SANITIZED)
endif()

# isthmus_library(base DEPENDS fmt::fmt ...): every .cpp below the folder, one target a folder.
function(isthmus_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(sources)
    add_library(isthmus_${name} STATIC ${sources})
    target_link_libraries(isthmus_${name} PUBLIC ${arg_DEPENDS} PRIVATE isthmus_options)
  else()
    add_library(isthmus_${name} INTERFACE)
    target_link_libraries(isthmus_${name} INTERFACE ${arg_DEPENDS})
  endif()
endfunction()
