#include "tools/control/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "tools/control/http/httplib.h"
#include "tools/control/http/timed_stream.h"

namespace oneflow {
namespace {

constexpr size_t kWaiting = 64;     // connections that are accepted before a thread is free
constexpr size_t kMostBody = 1024;  // of a request that has no business to have one

// Threads for connections. Who adds one waits while too many wait already.
class Connections final : public httplib::TaskQueue {
 public:
  explicit Connections(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> serve) override {
    absl::MutexLock lock(&mu_);
    const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return waiting_.size() < kWaiting; };
    mu_.Await(absl::Condition(&room));
    waiting_.push_back(std::move(serve));
  }

  void shutdown() override {
    {
      absl::MutexLock lock(&mu_);
      ending_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    absl::MutexLock lock(&mu_);
    const auto called = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !waiting_.empty() || ending_; };
    while (true) {
      mu_.Await(absl::Condition(&called));
      if (waiting_.empty()) return;
      const std::function<void()> serve = std::move(waiting_.front());
      waiting_.pop_front();
      mu_.Unlock();
      serve();
      mu_.Lock();
    }
  }

  absl::Mutex mu_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

int HttpStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

// Not "127.evil.example", whoever that is: nobody is asked where a name leads.
bool IsLoopbackName(const std::string& host) {
  if (host == "localhost" || host == "::1") return true;
  return absl::StartsWith(host, "127.") && host.find_first_not_of("0123456789.") == host.npos;
}

// "[::1]:80", "localhost:80" and "localhost" without the port.
std::string HostOf(const std::string& place) {
  if (absl::StartsWith(place, "[")) return place.substr(1, place.find(']') - 1);
  return place.substr(0, place.find(':'));
}

void Refuse(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text + "\n", "text/plain; charset=utf-8");
}

// As it is: a browser of this machine gains nothing by what the library would do first, which is to compress it as well
// as it can.
void SetBody(HttpReply reply, httplib::Response& response) {
  if (reply.body.empty()) return response.set_content("", reply.type);
  const size_t size = reply.body.size();
  response.set_content_provider(size, reply.type,
                                [body = std::move(reply.body)](size_t offset, size_t length, httplib::DataSink& sink) {
                                  return sink.write(body.data() + offset, length);
                                });
}

// What came as a password or as a bearer's token; nothing if neither did.
std::optional<std::string> TokenIn(const httplib::Request& request) {
  const std::string header = request.get_header_value("Authorization");
  absl::string_view said = header;
  if (absl::ConsumePrefix(&said, "Bearer ")) return std::string(said);
  std::string user;
  if (!absl::ConsumePrefix(&said, "Basic ") || !absl::Base64Unescape(said, &user)) return std::nullopt;
  const size_t colon = user.find(':');
  if (colon == user.npos) return std::nullopt;
  return user.substr(colon + 1);
}

// Makes `context` show `identity`, and ask for a certificate of its authority if `of_callers`.
bool UseIdentity(const TlsIdentity& identity, bool of_callers, SSL_CTX& context) {
  const auto read = [](const std::string& pem) {
    return std::unique_ptr<BIO, int (*)(BIO*)>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  };
  using Certificate = std::unique_ptr<X509, void (*)(X509*)>;
  const auto next = [](BIO* from) {
    return Certificate(PEM_read_bio_X509(from, nullptr, nullptr, nullptr), X509_free);
  };
  const Certificate ours = next(read(identity.certificate).get());
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(read(identity.key).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  if (SSL_CTX_use_certificate(&context, ours.get()) != 1 || SSL_CTX_use_PrivateKey(&context, key.get()) != 1) {
    return false;
  }
  if (!of_callers) return true;
  const auto authorities = read(identity.authority);
  while (const Certificate authority = next(authorities.get())) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), authority.get());
    SSL_CTX_add_client_CA(&context, authority.get());
  }
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

// The library is patient with each byte; these are with the whole of a request. One request a connection.
class TimedServer final : public httplib::Server {
 public:
  explicit TimedServer(absl::Duration patience) : patience_(patience) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    TimedStream stream(socket, nullptr, patience_);
    bool closed = false;
    const bool served = process_request(stream, /*close_connection=*/true, closed, nullptr);
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return served;
  }

  const absl::Duration patience_;
};

class TimedSslServer final : public httplib::SSLServer {
 public:
  TimedSslServer(const HttpAccess& access, absl::Duration patience)
      : SSLServer([&access](SSL_CTX& context) {
          return UseIdentity(access.access.identity, /*of_callers=*/access.gate == nullptr, context);
        }),
        patience_(patience) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(ssl_context()), SSL_free);
    bool closed = false, served = false;
    if (ssl != nullptr && SSL_set_fd(ssl.get(), socket) == 1) {
      TimedStream stream(socket, ssl.get(), patience_);
      served = stream.Accept() && process_request(stream, /*close_connection=*/true, closed,
                                                  [&ssl](httplib::Request& request) { request.ssl = ssl.get(); });
      if (served) SSL_shutdown(ssl.get());
    }
    ERR_clear_error();
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return served;
  }

  const absl::Duration patience_;
};

std::unique_ptr<httplib::Server> MakeServer(const HttpAccess& access, absl::Duration patience) {
  if (access.access.identity.empty()) return std::make_unique<TimedServer>(patience);
  return std::make_unique<TimedSslServer>(access, patience);
}

class BoundedServer final : public HttpServer {
 public:
  BoundedServer(std::vector<HttpRoute> routes, HttpLimits limits, HttpAccess access)
      : routes_(std::move(routes)),
        most_streams_(limits.threads / 2),
        access_(std::move(access)),
        server_(MakeServer(access_, limits.patience)) {
    server_->new_task_queue = [threads = limits.threads] { return new Connections(threads); };
    server_->set_payload_max_length(kMostBody);
    server_->set_tcp_nodelay(true);
    // Not SO_REUSEPORT, by which two servers would share a port.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_->set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return MayAsk(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                       : httplib::Server::HandlerResponse::Handled;
    });
    for (const HttpRoute& route : routes_) {
      server_->Get(route.pattern, [this, &route](const httplib::Request& request, httplib::Response& response) {
        Answer(route, request, response);
      });
    }
  }

  ~BoundedServer() override {
    stopping_ = true;
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Begin(const std::string& what, const std::string& place) {
    const size_t colon = place.rfind(':');
    std::string host = colon == place.npos ? "127.0.0.1" : place.substr(0, colon);
    int port = -1;
    if (!absl::SimpleAtoi(colon == place.npos ? place : place.substr(colon + 1), &port) || port < 0 || port > 65535) {
      return absl::InvalidArgumentError(absl::StrCat(what, " '", place, "': is no port, nor HOST:PORT"));
    }
    if (absl::StartsWith(host, "[")) host = HostOf(host);
    loopback_ = IsLoopbackName(host);
    if (!loopback_) OF_RETURN_IF_ERROR_AT(MayListen(absl::StrCat(host, ":", port), access_.access), what);
    if (!server_->is_valid()) return absl::InvalidArgumentError(absl::StrCat(what, ": OpenSSL takes no such key"));
    errno = 0;
    const int bound = port == 0 ? server_->bind_to_any_port(host) : server_->bind_to_port(host, port) ? port : -1;
    if (bound < 0) {
      return absl::UnavailableError(absl::StrCat(
          what, " '", place, "': cannot listen there: ", errno == 0 ? "no such address" : std::strerror(errno)));
    }
    address_ = absl::StrCat(host.find(':') == host.npos ? host : absl::StrCat("[", host, "]"), ":", bound);
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();  // before which it cannot be stopped
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  std::string url() const override {
    return absl::StrCat(access_.access.identity.empty() ? "http://" : "https://", address_);
  }

 private:
  bool MayAsk(const httplib::Request& request, httplib::Response& response) const {
    if (request.method != "GET") {
      response.set_header("Allow", "GET");
      Refuse(response, 405, absl::StrCat(request.method, " is not served here, only GET is"));
      return false;
    }
    const std::string host = request.get_header_value("Host");
    if (loopback_ && !IsLoopbackName(HostOf(host))) {
      Refuse(response, 403, absl::StrCat("this is served to this machine alone, and not as '", host, "'"));
      return false;
    }
    if (access_.gate == nullptr) return true;
    const absl::Status admitted = access_.gate(request.remote_addr, TokenIn(request));
    if (admitted.ok()) return true;
    if (absl::IsUnauthenticated(admitted)) {
      response.set_header("WWW-Authenticate", "Basic realm=\"the password is your token\", charset=\"UTF-8\"");
    }
    Refuse(response, HttpStatus(admitted), std::string(admitted.message()));
    return false;
  }

  void Answer(const HttpRoute& route, const httplib::Request& request, httplib::Response& response) {
    HttpRequest asked;
    for (size_t i = 1; i < request.matches.size(); ++i) asked.parts.push_back(request.matches[i]);
    for (const auto& [name, value] : request.params) asked.query[name] = value;
    absl::StatusOr<HttpReply> reply = route.answer(asked);
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Cache-Control", "no-store");
    if (!reply.ok()) return Refuse(response, HttpStatus(reply.status()), std::string(reply.status().message()));
    response.set_header("Content-Security-Policy", reply->policy);
    if (!reply->next) return SetBody(*std::move(reply), response);
    if (++num_streams_ > most_streams_) {
      --num_streams_;
      return Refuse(response, 503, absl::StrCat(most_streams_, " follow what happens already"));
    }
    response.set_chunked_content_provider(
        reply->type,
        [this, next = std::move(reply->next)](size_t, httplib::DataSink& sink) {
          const std::optional<std::string> piece = stopping_ ? std::nullopt : next();
          if (!piece) return sink.done(), true;
          return piece->empty() ? sink.is_writable() : sink.write(piece->data(), piece->size());
        },
        [this](bool) { --num_streams_; });
  }

  const std::vector<HttpRoute> routes_;
  const int most_streams_;
  const HttpAccess access_;
  bool loopback_ = false;
  std::string address_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> num_streams_ = 0;
  const std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& what, const std::string& place,
                                                              std::vector<HttpRoute> routes, HttpLimits limits,
                                                              HttpAccess access) {
  auto server = std::make_unique<BoundedServer>(std::move(routes), limits, std::move(access));
  OF_RETURN_IF_ERROR(server->Begin(what, place));
  return server;
}

}  // namespace oneflow
