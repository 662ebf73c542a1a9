#include "tools/control/http/timed_stream.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/time/clock.h"

namespace oneflow {
namespace {

constexpr size_t kAhead = 4096;
// Who takes what is written more slowly than this keeps a thread from others: a page of 1 MB in a minute.
constexpr double kLeastBytesPerSecond = 16 << 10;

// Of a clock that nobody sets.
absl::Time Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

bool AwaitSocket(socket_t socket, short events, absl::Duration limit) {
  pollfd waits = {.fd = socket, .events = events, .revents = 0};
  const auto ms = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(limit, absl::Milliseconds(1))));
  return poll(&waits, 1, std::max(ms, 0)) > 0;
}

void AddressOf(int (*ask)(int, sockaddr*, socklen_t*), socket_t socket, std::string& ip, int& port) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = {}, service[NI_MAXSERV] = {};
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (ask(socket, general, &size) != 0 ||
      getnameinfo(general, size, host, sizeof(host), service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host;
  port = std::atoi(service);
}

}  // namespace

TimedStream::TimedStream(socket_t socket, SSL* ssl, absl::Duration patience)
    : socket_(socket), ssl_(ssl), patience_(patience), read_by_(Now() + patience) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

template <typename Act>
ssize_t TimedStream::Until(absl::Time deadline, short events, const Act& act) {
  while (true) {
    errno = 0;
    const ssize_t done = act();
    if (done > 0) return done;
    if (ssl_ != nullptr) {
      const int error = SSL_get_error(ssl_, static_cast<int>(done));
      if (error == SSL_ERROR_ZERO_RETURN) return 0;
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
      events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    } else {
      if (done == 0) return 0;
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    }
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration() || !AwaitSocket(socket_, events, left)) return -1;
  }
}

bool TimedStream::Accept() {
  return ssl_ == nullptr || Until(read_by_, POLLIN, [this]() -> ssize_t { return SSL_accept(ssl_); }) > 0;
}

bool TimedStream::is_readable() const {
  return taken_ < ahead_.size() || (ssl_ != nullptr && SSL_pending(ssl_) > 0) ||
         AwaitSocket(socket_, POLLIN, absl::ZeroDuration());
}

bool TimedStream::is_writable() const { return AwaitSocket(socket_, POLLOUT, patience_); }

ssize_t TimedStream::read(char* to, size_t size) {
  if (taken_ == ahead_.size()) {
    if (Now() >= read_by_) return -1;  // also if each byte was there when it was asked for
    char bytes[kAhead];
    const ssize_t got = Until(read_by_, POLLIN, [&]() -> ssize_t {
      return ssl_ == nullptr ? recv(socket_, bytes, sizeof(bytes), 0) : SSL_read(ssl_, bytes, sizeof(bytes));
    });
    if (got <= 0) return got;
    ahead_.assign(bytes, got);
    taken_ = 0;
  }
  const size_t count = std::min(size, ahead_.size() - taken_);
  std::memcpy(to, ahead_.data() + taken_, count);
  taken_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t TimedStream::write(const char* from, size_t size) {
  const absl::Time deadline = Now() + patience_ + absl::Seconds(static_cast<double>(size) / kLeastBytesPerSecond);
  size_t written = 0;
  while (written < size) {
    const ssize_t count = Until(std::min(deadline, Now() + patience_), POLLOUT, [&]() -> ssize_t {
      const size_t rest = size - written;
      if (ssl_ == nullptr) return send(socket_, from + written, rest, MSG_NOSIGNAL);
      return SSL_write(ssl_, from + written, static_cast<int>(std::min(rest, size_t{1} << 20)));
    });
    if (count <= 0) return -1;
    written += count;
  }
  return static_cast<ssize_t>(size);
}

void TimedStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  AddressOf(getpeername, socket_, ip, port);
}

void TimedStream::get_local_ip_and_port(std::string& ip, int& port) const { AddressOf(getsockname, socket_, ip, port); }

}  // namespace oneflow
