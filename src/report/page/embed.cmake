# Writes OUTPUT, a C++ file with the page's files in it, from those in FOLDER:
#   cmake -DFOLDER=src/report/page -DOUTPUT=page_files.cc -P embed.cmake
# The modules of a page become one script, in the order of what they import from one another: inside of one file nothing can be
# imported. So their top-level names must differ.
set(shared format colors data view axes curves parts)
set(report ${shared} map tables main)
set(diff ${shared} diff)
set(front ${shared} scales front)

include(${CMAKE_CURRENT_LIST_DIR}/../../embed.cmake)

file(WRITE ${OUTPUT} "#include \"report/page_files.h\"\n\nnamespace stweaver {\n\n")
file(READ ${FOLDER}/page.html html)
embed(kPageHtml "${html}")
file(READ ${FOLDER}/style.css style)
embed(kPageStyle "${style}")
function(embed_script name)
  set(script "")
  foreach(module ${ARGN})
    file(READ ${FOLDER}/${module}.js source)
    string(REGEX REPLACE "\nimport [^;]*;" "\n" source "\n${source}")
    string(REGEX REPLACE "\nexport " "\n" source "${source}")
    string(APPEND script "${source}")
  endforeach()
  embed(${name} "${script}")
endfunction()
embed_script(kReportScript ${report})
embed_script(kDiffScript ${diff})
embed_script(kFrontScript ${front})
file(APPEND ${OUTPUT} "\n}  // namespace stweaver\n")
