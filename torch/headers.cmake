# Writes stweaver_headers() of control.h into OUTPUT: a line for each header of the core under SOURCE. What is built
# from other headers than the library has other ideas of its classes, and ends the process.
set(lines)
foreach(layer base trace profile plan device arena runtime session)
  file(GLOB headers RELATIVE ${SOURCE} ${SOURCE}/${layer}/*.h)
  list(SORT headers)
  foreach(header ${headers})
    file(SHA256 ${SOURCE}/${header} digest)
    string(APPEND lines "      \"${header} ${digest}\\n\"\n")
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "#include \"control.h\"

const char* stweaver_headers() {
  return
${lines}      \"\";
}
")
