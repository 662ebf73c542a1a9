#include "test/support/cuda/nccl_sockets.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace oneflow::software_cuda {
namespace {

// The name begins with a zero byte and is as long as its length says.
socklen_t SetName(const std::string& address, sockaddr_un* name) {
  *name = {};
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path + 1, address.data(), address.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
}

Socket NewSocket() { return Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Until there is something to read or the other end is gone; false if the gate opens first.
bool WaitToRead(const Socket& socket, const Gate* gate) {
  pollfd fds[] = {{socket.fd(), POLLIN, 0}, {gate == nullptr ? -1 : gate->fd(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

ptrdiff_t Moved(ssize_t result) {
  if (result > 0) return result;
  return result < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

}  // namespace

Socket::~Socket() {
  if (is_open()) close(fd_);
}

Gate::Gate() : event_(eventfd(0, EFD_CLOEXEC)) {}

void Gate::Open() { eventfd_write(event_.fd(), 1); }

std::string NewAddress() {
  uint64_t random[2] = {};
  if (getrandom(random, sizeof random, 0) != sizeof random) return {};
  char name[64];
  std::snprintf(name, sizeof name, "software-nccl-%016llx%016llx", static_cast<unsigned long long>(random[0]),
                static_cast<unsigned long long>(random[1]));
  return name;
}

Socket Listen(const std::string& address) {
  Socket socket = NewSocket();
  sockaddr_un name;
  const socklen_t size = SetName(address, &name);
  const bool listens = socket.is_open() && bind(socket.fd(), reinterpret_cast<const sockaddr*>(&name), size) == 0 &&
                       listen(socket.fd(), SOMAXCONN) == 0;
  return listens ? std::move(socket) : Socket();
}

Socket Connect(const std::string& address) {
  Socket socket = NewSocket();
  sockaddr_un name;
  const socklen_t size = SetName(address, &name);
  const bool connected = socket.is_open() && connect(socket.fd(), reinterpret_cast<const sockaddr*>(&name), size) == 0;
  return connected ? std::move(socket) : Socket();
}

Socket Accept(const Socket& listener, const Gate* gate) {
  if (!WaitToRead(listener, gate)) return Socket();
  return Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool Receive(const Socket& from, void* data, size_t bytes, const Gate* gate) {
  for (size_t done = 0; done < bytes;) {
    if (!WaitToRead(from, gate)) return false;
    const ptrdiff_t moved = ReceiveSome(from, static_cast<char*>(data) + done, bytes - done);
    if (moved < 0) return false;
    done += static_cast<size_t>(moved);
  }
  return true;
}

bool Send(const Socket& to, const void* data, size_t bytes) {
  return SendSome(to, data, bytes) == static_cast<ptrdiff_t>(bytes);
}

ptrdiff_t ReceiveSome(const Socket& from, void* data, size_t bytes) {
  return Moved(recv(from.fd(), data, bytes, MSG_DONTWAIT));
}

ptrdiff_t SendSome(const Socket& to, const void* data, size_t bytes) {
  return Moved(send(to.fd(), data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace oneflow::software_cuda
