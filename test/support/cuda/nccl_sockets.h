// Sockets between threads and processes of one machine. Their names are in no file system: nothing is left of them
// however a process ends, and that a peer has ended is seen at once.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace oneflow::software_cuda {

// Owns a file descriptor, or none.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Lets threads go that wait for a socket: once open, it stays so.
class Gate {
 public:
  Gate();
  void Open();
  int fd() const { return event_.fd(); }  // readable once it is open

 private:
  Socket event_;
};

// A name that nobody else has.
std::string NewAddress();
// Not open if the system has no more of them.
Socket Listen(const std::string& address);
// Not open if nobody listens there.
Socket Connect(const std::string& address);

// These wait. Not open and false if the other end is gone, or `gate` (null: none) opens first.
Socket Accept(const Socket& listener, const Gate* gate);
bool Receive(const Socket& from, void* data, size_t bytes, const Gate* gate);
// For what a socket can hold.
bool Send(const Socket& to, const void* data, size_t bytes);

// Moves what can be moved without waiting; how many bytes, or -1 if the other end is gone.
ptrdiff_t ReceiveSome(const Socket& from, void* data, size_t bytes);
ptrdiff_t SendSome(const Socket& to, const void* data, size_t bytes);

}  // namespace oneflow::software_cuda
