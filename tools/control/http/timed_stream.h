// A connection to the HTTP server on which everything has an end: what a caller asks must have come in time as a whole,
// the handshake of TLS included, however many bytes arrive one by one; and who is answered must take it in time.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "tools/control/http/httplib.h"

namespace oneflow {

// Of one thread. Neither owns the socket, which it sets to non-blocking, nor `ssl` (null: plain text), which is of it.
class TimedStream final : public httplib::Stream {
 public:
  // `patience`: from now until the last byte that is read; and with a caller who takes nothing of what is written. What
  // is taken slowly has that and what its bytes take at 16 KiB a second.
  TimedStream(socket_t socket, SSL* ssl, absl::Duration patience);

  // The server's side of the handshake, if there is one to be made.
  bool Accept();

  bool is_readable() const override;
  bool is_writable() const override;
  // 0 at the end of what the caller says, -1 if it did not come in time.
  ssize_t read(char* to, size_t size) override;
  // All of it, or -1.
  ssize_t write(const char* from, size_t size) override;
  using Stream::write;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  // Calls `act`, which does not wait, until it has done something, waiting for the socket in between.
  template <typename Act>
  ssize_t Until(absl::Time deadline, short events, const Act& act);

  const socket_t socket_;
  SSL* const ssl_;
  const absl::Duration patience_;
  const absl::Time read_by_;
  std::string ahead_;  // read and not yet asked for, from `taken_` on: callers of read() ask for single bytes
  size_t taken_ = 0;
};

}  // namespace oneflow
