#include "tools/cli/usage.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr int kMostPort = 65535;

std::string Quoted(absl::string_view value) { return absl::StrCat("'", VisibleText(value), "'"); }

// Why `text` is no port; empty if it is one. Digits alone: neither signs nor spaces.
std::string WhyNoPort(absl::string_view text, int least) {
  int port = -1;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (digits && absl::SimpleAtoi(text, &port) && port >= least && port <= kMostPort) return "";
  return absl::StrCat("port ", Quoted(text), " is not in [", least, ", ", kMostPort, "]");
}

// Why `text` is no host; empty if it is one.
std::string WhyNoHost(absl::string_view text) {
  if (text.empty()) return "names no host";
  if (absl::StartsWith(text, "[") && absl::EndsWith(text, "]"))
    text = text.substr(1, text.size() - 2);
  else if (text.find(':') != text.npos)
    return absl::StrCat("an IPv6 address stands in brackets: [", text, "]");
  if (text.find_first_of(" /[]") == text.npos) return "";
  return absl::StrCat(Quoted(text), " is no host");
}

std::string WhyNoHostAndPort(absl::string_view text, int least) {
  const size_t colon = text.rfind(':');
  const bool bare = colon != text.npos && text.find(']', colon) != text.npos;  // "[::1]"
  if (colon == text.npos || bare) return "is not HOST:PORT";
  const std::string host = WhyNoHost(text.substr(0, colon));
  return host.empty() ? WhyNoPort(text.substr(colon + 1), least) : host;
}

// `why` says what is wrong of a value, or nothing.
template <typename Why>
CLI::Validator Checked(std::string what, Why why) {
  return CLI::Validator(
      [why](std::string& value) {
        const std::string wrong = why(value);
        return wrong.empty() ? "" : absl::StrCat(Quoted(value), ": ", wrong);
      },
      std::move(what));
}

}  // namespace

CLI::Validator PlaceToServe() {
  return Checked("PORT|HOST:PORT", [](absl::string_view value) -> std::string {
    if (value.find(':') != value.npos) return WhyNoHostAndPort(value, 0);
    int64_t ignored = 0;
    if (!absl::SimpleAtoi(value, &ignored)) return "is no port, nor HOST:PORT";
    return WhyNoPort(value, 0);
  });
}

CLI::Validator HostAndPort(bool may_choose) {
  return Checked("HOST:PORT",
                 [least = may_choose ? 0 : 1](absl::string_view value) { return WhyNoHostAndPort(value, least); });
}

CLI::Validator HostAlone() {
  return Checked("HOST", [](absl::string_view value) -> std::string {
    const bool ipv6 = std::count(value.begin(), value.end(), ':') > 1;
    if (!ipv6 && value.find(':') != value.npos) return "has a port, and a host alone is wanted";
    return WhyNoHost(ipv6 && value[0] != '[' ? absl::StrCat("[", value, "]") : std::string(value));
  });
}

CLI::Validator NumberIn(double least, double most) {
  return Checked("NUMBER", [least, most](absl::string_view value) -> std::string {
    double number = 0;
    if (absl::SimpleAtod(value, &number) && number >= least && number <= most) return "";
    return absl::StrCat("is no number in [", least, ", ", most, "]");
  });
}

CLI::Validator WholeFrom(int64_t least) {
  return Checked("NUMBER", [least](absl::string_view value) -> std::string {
    int64_t number = 0;
    if (absl::SimpleAtoi(value, &number) && number >= least) return "";
    return absl::StrCat("is no whole number from ", least, " on");
  });
}

CLI::Validator Utf8() {
  return Checked("TEXT", [](absl::string_view value) -> std::string { return IsUtf8(value) ? "" : "is not UTF-8"; });
}

const char* FindWithoutValue(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (!absl::StartsWith(argv[i], "--")) continue;
    const char* const equals = std::strchr(argv[i], '=');
    if (equals != nullptr && equals[1] == '\0') return argv[i];
  }
  return nullptr;
}

}  // namespace oneflow
