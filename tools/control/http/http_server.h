// Serves what people and programs look at: pages, numbers, streams of news. It answers GET and nothing else.
//
// Whoever reaches the port may cost little: a request is a connection of its own, as many are answered at a time as
// there are threads, some more wait, and the rest wait unaccepted. Streams take at most half of the threads. Who does
// not say within `patience` all that it asks, or does not read what is written, is dropped: slow callers, however many,
// hold a thread for that long each. On a loopback address requests that name another host than this
// one are refused, so that no web page of elsewhere reads ours through a browser of this machine.
//
// Who may ask, by what the server has:
//
//   nothing                  whoever is on this machine; elsewhere nothing is served unless plain text is meant
//   certificates             https, to those who show a certificate of the same CA
//   tokens                   those who show one, as the password of any name or as "Authorization: Bearer TOKEN"
//   certificates and tokens  https, to those who show a token: browsers seldom have certificates
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow {

struct HttpRequest {
  std::vector<std::string> parts;            // what the groups of the route's pattern matched
  std::map<std::string, std::string> query;  // of a name that comes twice the last
};

struct HttpReply {
  std::string type = "application/json";
  std::string body;
  // Instead of a body: the next piece of a stream, which may be empty; nothing at its end. Asked on the connection's
  // thread, again and again; waits for a second at most.
  std::function<std::optional<std::string>()> next;
  std::string policy = "default-src 'self'; img-src data:; frame-ancestors 'self'";  // Content-Security-Policy
};

struct HttpRoute {
  std::string pattern;  // regular expression for the whole path
  // Errors are answered as text: NotFound with 404, InvalidArgument 400, FailedPrecondition 409, ResourceExhausted 429,
  // Unavailable 503, others 500. Any thread.
  std::function<absl::StatusOr<HttpReply>(const HttpRequest&)> answer;
};

struct HttpLimits {
  int threads = 2;                             // for connections
  absl::Duration patience = absl::Seconds(2);  // with a request as a whole, and with who does not read
};

// Whether who shows this token, or none, may ask. PermissionDenied or Unauthenticated if not, or ResourceExhausted. Any
// thread.
using HttpGate = std::function<absl::Status(const std::string& host, const std::optional<std::string>& token)>;

struct HttpAccess {
  Access access;  // certificates, or that plain text is meant
  HttpGate gate;  // null: tokens are not asked for
};

class HttpServer {
 public:
  // `place`: "8080" is port 8080 of 127.0.0.1, "HOST:8080" of that address; port 0 is any free one. InvalidArgument if
  // it is neither, Unavailable if it cannot be had, errors of MayListen() (tools/control/rpc/rpc.h). `what` is named in
  // errors.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& what, const std::string& place,
                                                           std::vector<HttpRoute> routes, HttpLimits limits,
                                                           HttpAccess access = {});
  // Ends all streams and waits for what is being answered.
  virtual ~HttpServer() = default;

  // "127.0.0.1:8080", with the actual port.
  virtual const std::string& address() const = 0;
  // The same for a browser: "http://127.0.0.1:8080".
  virtual std::string url() const = 0;
};

}  // namespace oneflow
