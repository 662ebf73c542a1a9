# cmake -DFROM=file -DTO=source.cc -DNAME=Name -P embed.cmake: the bytes of a file as a constant of the program,
# `std::string_view oneflow::pb::Name()`.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "#include <string_view>
namespace oneflow::pb {
std::string_view ${NAME}() {
  static constexpr unsigned char kBytes[] = {${bytes}};
  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)};
}
}  // namespace oneflow::pb
")
