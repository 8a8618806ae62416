# cmake -DBUILTIN=… -DHARMLESS=… -DOUTPUT=… -P builtin_table.cmake
#
# Turns the two lists of built-in functions into initialisers that builtins.cpp includes. Both lists are
# sorted by name in byte order, which the compiler checks.

function(drop_header name)
  string(FIND "${${name}}" "\n" end)
  math(EXPR end "${end} + 1")
  string(SUBSTRING "${${name}}" ${end} -1 rest)
  set(${name} "${rest}" PARENT_SCOPE)
endfunction()

file(READ "${BUILTIN}" builtin)
drop_header(builtin)
string(REPLACE "\"" "" builtin "${builtin}")                      # "char" and "any": only commas are counted
string(REGEX REPLACE "([^\t\n]+)\t([^\t\n]*)\t[^\t\n]*\t[^\t\n]*\t([a-z_]+)\t([a-z]+)\t[^\n]*\n"
       "{\"\\1\", arguments_of(\"\\2\"), FunctionClass::\\3, Target::\\4},\n" builtin "${builtin}")

file(READ "${HARMLESS}" harmless)
drop_header(harmless)
string(REGEX REPLACE "([^\t\n]+)\t([a-z]+)\t([0-9]+)\t([0-9]+)\n"
       "{\"\\1\", Harmless::\\2, \\3, \\4},\n" harmless "${harmless}")

file(WRITE "${OUTPUT}"
     "constexpr ListedFunction kListed[] = {\n${builtin}};\nconstexpr HarmlessFunction kHarmless[] = {\n${harmless}};\n")
