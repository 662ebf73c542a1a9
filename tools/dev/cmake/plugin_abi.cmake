# cmake -DROOT=... -DHEADERS=... -DTO=... -P plugin_abi.cmake: writes the header that says what a plugin was built for:
# a hash of the headers that it sees.
set(hashes)
separate_arguments(headers UNIX_COMMAND "${HEADERS}")
foreach(header IN LISTS headers)
  file(SHA256 ${ROOT}/${header} hash)
  string(APPEND hashes "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${TO} CONTENT
     "// Made by the build. Both sides of a plugin must agree on it: the headers of the engine, and the C++ ABI.
#pragma once

#define ONEFLOW_PLUGIN_TEXT_OF(x) #x
#define ONEFLOW_PLUGIN_TEXT(x) ONEFLOW_PLUGIN_TEXT_OF(x)
#define ONEFLOW_PLUGIN_ABI \"${hash} c++abi-\" ONEFLOW_PLUGIN_TEXT(__GXX_ABI_VERSION)
" @ONLY)
