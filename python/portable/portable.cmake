# Included after project() (CMAKE_PROJECT_INCLUDE, by tools/wheel.py): what is built runs on every Linux whose glibc is
# that of the stubs in STWEAVER_GLIBC or newer, whatever is on the machine that builds it.
#
# The C++ library and those that the command needs are linked as archives; none of their symbols is exported
# (python/stweaver/adapter.py says why). The C library is linked by its stubs: they have the symbols of that release
# and no others. (The machine's libgcc_s, which is linked by name like the C library, may itself want newer ones.)
set(STWEAVER_GLIBC "" CACHE PATH "stubs of the oldest glibc to run on; empty for this machine's")
if(NOT STWEAVER_GLIBC)
  return()
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
add_link_options(-static-libstdc++ -B${STWEAVER_GLIBC} -L${STWEAVER_GLIBC} LINKER:--as-needed LINKER:--exclude-libs,ALL
                 LINKER:--allow-shlib-undefined)

# An object, not an archive: the C++ library, which wants it, comes last.
add_library(newer_glibc OBJECT ${CMAKE_CURRENT_LIST_DIR}/newer_glibc.cc)
target_compile_options(newer_glibc PRIVATE -fvisibility=hidden)
link_libraries($<TARGET_OBJECTS:newer_glibc> ${STWEAVER_GLIBC}/libc_nonshared.a -lpthread -ldl -lm -lrt)
