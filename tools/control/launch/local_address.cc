#include "tools/control/launch/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The first way to `host` for datagrams: none is sent.
absl::StatusOr<Found> ResolveHost(const std::string& host) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int failed = getaddrinfo(host.c_str(), "9", &hints, &found);
  if (failed == 0) return Found(found, &freeaddrinfo);
  return absl::NotFoundError(absl::StrCat("host '", host, "': ", gai_strerror(failed)));
}

absl::StatusOr<std::string> Numbers(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int failed = getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (failed == 0) return std::string(text);
  return absl::UnavailableError(absl::StrCat("an address: ", gai_strerror(failed)));
}

}  // namespace

absl::StatusOr<std::string> NumericAddress(const std::string& host) {
  OF_ASSIGN_OR_RETURN(const Found found, ResolveHost(host));
  return Numbers(found->ai_addr, found->ai_addrlen);
}

absl::StatusOr<std::string> AddressTowards(const std::string& host) {
  OF_ASSIGN_OR_RETURN(const Found found, ResolveHost(host));
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage mine = {};
  socklen_t length = sizeof(mine);
  const bool known = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &length) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!known) return absl::UnavailableError(absl::StrCat("no way to host '", host, "': ", std::strerror(error)));
  return Numbers(reinterpret_cast<const sockaddr*>(&mine), length);
}

std::string WithPort(const std::string& numeric_address, int port) {
  const bool is_v6 = numeric_address.find(':') != std::string::npos;
  return is_v6 ? absl::StrCat("[", numeric_address, "]:", port) : absl::StrCat(numeric_address, ":", port);
}

}  // namespace oneflow
