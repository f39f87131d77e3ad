# Writes OUTPUT, a C++ file with the sets of constants in FOLDER, each a file that `advise --fit -o` wrote:
#   cmake -DFOLDER=src/advise/sets -DOUTPUT=constant_files.cc -P embed.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../embed.cmake)

file(GLOB files ${FOLDER}/*.json)
file(WRITE ${OUTPUT} "#include \"advise/constant_files.h\"\n\nnamespace stweaver {\nnamespace {\n\n")
set(entries "")
foreach(path ${files})
  get_filename_component(name ${path} NAME_WE)
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${path} content)
  embed(${identifier} "${content}")
  string(APPEND entries "\n    {\"${name}\", ${identifier}},")
endforeach()
file(APPEND ${OUTPUT} "\n}  // namespace\n\nstd::span<const ConstantFile> constant_files() {\n"
                      "  static const ConstantFile files[] = {${entries}\n  };\n  return files;\n}\n\n"
                      "}  // namespace stweaver\n")
