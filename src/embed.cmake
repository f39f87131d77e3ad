# What scripts that write files into C++ sources share: embed(NAME CONTENT) appends a constant to OUTPUT.
function(embed name content)
  # A compiler need not take string literals longer than this.
  set(longest 60000)
  string(LENGTH "${content}" length)
  set(literals "")
  foreach(begin RANGE 0 ${length} ${longest})
    string(SUBSTRING "${content}" ${begin} ${longest} part)
    string(APPEND literals "\n    R\"~file~(${part})~file~\"")
  endforeach()
  file(APPEND ${OUTPUT} "const std::string_view ${name} =${literals};\n")
endfunction()
