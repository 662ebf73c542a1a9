#include "tools/control/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/http/httplib.h"
#include "tools/control/security/certificates.h"

namespace oneflow {
namespace {

// A connection that has sent `request` and nothing more.
class RawConnection {
 public:
  RawConnection(const HttpServer& server, const std::string& request) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    CHECK(absl::SimpleAtoi(server.address().substr(server.address().rfind(':') + 1), &port));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    PCHECK(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    PCHECK(write(fd_, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool SaysNothingFor(int ms) {
    pollfd waits = {.fd = fd_, .events = POLLIN | POLLRDHUP, .revents = 0};
    return poll(&waits, 1, ms) == 0;
  }
  bool Send(const std::string& more) { return send(fd_, more.data(), more.size(), MSG_NOSIGNAL) > 0; }

  std::string Read(size_t most = 1 << 20) {
    std::string text;
    char buffer[4096];
    while (text.size() < most) {
      const ssize_t got = read(fd_, buffer, sizeof(buffer));
      if (got <= 0) break;
      text.append(buffer, got);
    }
    return text;
  }

 private:
  const int fd_;
};

std::string Get(const HttpServer& server, const std::string& path, const std::string& more = "Host: localhost\r\n") {
  return RawConnection(server, absl::StrCat("GET ", path, " HTTP/1.1\r\n", more, "\r\n")).Read();
}

HttpRoute Echo() {
  return {"/echo/(\\w+)", [](const HttpRequest& request) -> absl::StatusOr<HttpReply> {
            if (request.parts[0] == "nothing") return absl::NotFoundError("there is nothing");
            HttpReply reply;
            reply.body = absl::StrCat(request.parts[0], " ", request.query.contains("a") ? request.query.at("a") : "");
            return reply;
          }};
}

TEST(HttpServerTest, AnswersGetAndNothingElse) {
  const auto server = *HttpServer::Start("--page", "0", {Echo()}, {});
  EXPECT_THAT(Get(*server, "/echo/this?a=b%20c"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("this b c")));
  EXPECT_THAT(Get(*server, "/echo/nothing"), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("there is nothing")));
  EXPECT_THAT(Get(*server, "/other"), StartsWith("HTTP/1.1 404"));
  for (const char* method : {"POST", "HEAD", "PUT", "DELETE", "OPTIONS"}) {
    RawConnection other(*server, absl::StrCat(method, " /echo/this HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    EXPECT_THAT(other.Read(), StartsWith("HTTP/1.1 405")) << method;
  }
}

// A page of elsewhere may have its name lead to this machine, and so read what is here through a browser.
TEST(HttpServerTest, IsOfThisMachineAloneUnderItsOwnName) {
  const auto server = *HttpServer::Start("--page", "0", {Echo()}, {});
  EXPECT_THAT(server->address(), StartsWith("127.0.0.1:"));
  EXPECT_THAT(Get(*server, "/echo/this", "Host: evil.example:80\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Get(*server, "/echo/this", "Host: 127.evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Get(*server, "/echo/this", ""), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Get(*server, "/echo/this", "Host: [::1]:80\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(*server, "/echo/this", absl::StrCat("Host: ", server->address(), "\r\n")),
              StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, SaysWhyItCannotServe) {
  const auto server = *HttpServer::Start("--page", "0", {Echo()}, {});
  EXPECT_THAT(HttpServer::Start("--page", server->address(), {}, {}).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("--page '", server->address(), "': cannot listen there: Address already in use")));
  EXPECT_THAT(HttpServer::Start("--page", "here", {}, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "--page 'here': is no port, nor HOST:PORT"));
}

TEST(HttpServerTest, OtherMachinesAreServedInPlainTextOnlyIfThatIsMeant) {
  EXPECT_THAT(HttpServer::Start("--page", "0.0.0.0:0", {Echo()}, {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--page: '0.0.0.0:0' can be reached"), HasSubstr("--insecure"))));
  const auto server = HttpServer::Start("--page", "0.0.0.0:0", {Echo()}, {}, {.access = {.insecure = true}});
  ASSERT_OK(server);
  EXPECT_THAT(Get(**server, "/echo/this", "Host: elsewhere\r\n"), StartsWith("HTTP/1.1 200"));
}

absl::Status OnlySecret(const std::string&, const std::optional<std::string>& token) {
  if (!token) return absl::UnauthenticatedError("no token came");
  return *token == "secret" ? absl::OkStatus() : absl::PermissionDeniedError("it may not");
}

TEST(HttpServerTest, AsksForATokenOfBrowsersAndPrograms) {
  const auto server = *HttpServer::Start("--page", "0", {Echo()}, {}, {.gate = OnlySecret});
  const auto get = [&](const std::string& authorization) {
    return Get(*server, "/echo/this", absl::StrCat("Host: localhost\r\n", authorization));
  };
  const auto basic = [](const std::string& user) {
    return absl::StrCat("Authorization: Basic ", absl::Base64Escape(user), "\r\n");
  };
  EXPECT_THAT(get(""), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Basic"), HasSubstr("no token")));
  EXPECT_THAT(get("Authorization: Bearer secret\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("Authorization: Bearer secrets\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(get(basic("anyone:secret")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get(basic("secret:anything")), StartsWith("HTTP/1.1 403"));
  for (const char* broken : {"Authorization: Basic !\r\n", "Authorization: secret\r\n"}) {
    EXPECT_THAT(get(broken), StartsWith("HTTP/1.1 401")) << broken;
  }
  EXPECT_THAT(get(basic("secret")), StartsWith("HTTP/1.1 401"));
}

class HttpTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeCertificates(dir_.File("ours"), {}));
    ASSERT_OK(MakeCertificates(dir_.File("theirs"), {}));
    ASSERT_OK_AND_ASSIGN(access_.access.identity, LoadIdentity(dir_.File("ours/cluster"), absl::Now()));
  }
  // The status of what a client gets that shows the certificate in `folder`, or none; 0: no connection.
  int Ask(const HttpServer& server, const std::string& folder, const httplib::Headers& headers = {}) const {
    const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
    const std::string path = dir_.File(folder);
    httplib::SSLClient client("127.0.0.1", port, folder.empty() ? "" : path + "/cert.pem",
                              folder.empty() ? "" : path + "/key.pem");
    client.set_ca_cert_path(dir_.File("ours/cluster/ca.pem").c_str());
    const httplib::Result result = client.Get("/echo/this", headers);
    return result ? result->status : 0;
  }

  const TestDir dir_;
  HttpAccess access_;
};

TEST_F(HttpTlsTest, WithoutTokensAsksForACertificateOfItsOwnAuthority) {
  const auto server = *HttpServer::Start("--page", "0.0.0.0:0", {Echo()}, {}, access_);
  EXPECT_THAT(server->url(), StartsWith("https://0.0.0.0:"));
  EXPECT_EQ(Ask(*server, "ours/user"), 200);
  EXPECT_EQ(Ask(*server, "ours/cluster"), 200);
  EXPECT_EQ(Ask(*server, "theirs/user"), 0);
  EXPECT_EQ(Ask(*server, ""), 0);
  EXPECT_EQ(Get(*server, "/echo/this"), "");  // in plain text
}

TEST_F(HttpTlsTest, WithTokensAsksForThem) {
  access_.gate = OnlySecret;
  const auto server = *HttpServer::Start("--page", "0.0.0.0:0", {Echo()}, {}, access_);
  EXPECT_EQ(Ask(*server, ""), 401);
  EXPECT_EQ(Ask(*server, "ours/user"), 401);
  EXPECT_EQ(Ask(*server, "", {{"Authorization", "Bearer secret"}}), 200);
  EXPECT_EQ(Get(*server, "/echo/this", "Host: localhost\r\nAuthorization: Bearer secret\r\n"), "");
}

// Each says a byte whenever nothing has come back for a moment, so that every single read is quick.
class SlowSenders {
 public:
  SlowSenders(const HttpServer& server, int count, const std::string& begin) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, &server, begin] {
        while (!over_) {
          RawConnection slow(server, begin);
          while (!over_ && slow.SaysNothingFor(20) && slow.Send("x")) continue;
          ++dropped_;
        }
      });
    }
  }
  ~SlowSenders() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int dropped() const { return dropped_; }

 private:
  std::atomic<bool> over_ = false;
  std::atomic<int> dropped_ = 0;
  std::vector<std::thread> threads_;
};

TEST(HttpServerTest, SlowSendersKeepNobodyElseFromBeingAnswered) {
  const HttpLimits limits{.threads = 2, .patience = absl::Milliseconds(100)};
  const auto server = *HttpServer::Start("--page", "0", {Echo()}, limits);
  const std::string head = "GET /echo/this HTTP/1.1\r\nHost: localhost\r\n";
  // Within the request's line, its headers, and a body that it announces.
  for (const std::string& begin : {std::string("GET /"), head + "X-Slow: ", head + "Content-Length: 1000\r\n\r\n"}) {
    SlowSenders senders(*server, 8, begin);
    for (int i = 0; i < 3; ++i) EXPECT_THAT(Get(*server, "/echo/this"), StartsWith("HTTP/1.1 200")) << begin;
    while (senders.dropped() < 8) std::this_thread::yield();
  }
}

TEST_F(HttpTlsTest, WhoShakesHandsSlowlyKeepsNobodyElseFromBeingAnswered) {
  access_.gate = OnlySecret;
  const HttpLimits limits{.threads = 2, .patience = absl::Milliseconds(300)};
  const auto server = *HttpServer::Start("--page", "127.0.0.1:0", {Echo()}, limits, access_);
  const SlowSenders senders(*server, 4, std::string("\x16\x03\x01\x02\x00\x01", 6));  // a hello of 512 bytes begins
  EXPECT_EQ(Ask(*server, "", {{"Authorization", "Bearer secret"}}), 200);
  while (senders.dropped() < 4) std::this_thread::yield();
}

// As many streams as may be, to readers that never read; then one more.
TEST(HttpServerTest, WhoDoesNotReadIsDropped) {
  const HttpRoute endless{"/endless", [](const HttpRequest&) {
                            HttpReply reply;
                            reply.type = "text/event-stream";
                            reply.next = [] { return std::string(1 << 20, 'x'); };
                            return reply;
                          }};
  const auto server =
      *HttpServer::Start("--page", "0", {endless, Echo()}, {.threads = 4, .patience = absl::Milliseconds(300)});
  const std::string request = "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
  RawConnection first(*server, request), second(*server, request);
  EXPECT_THAT(first.Read(12), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(second.Read(12), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(RawConnection(*server, request).Read(12), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(*server, "/echo/this"), StartsWith("HTTP/1.1 200"));
  while (!absl::StartsWith(RawConnection(*server, request).Read(12), "HTTP/1.1 200"))
    absl::SleepFor(absl::Milliseconds(10));
}

TEST(HttpServerTest, EndsItsStreams) {
  std::atomic<int> pieces = 0;
  const HttpRoute endless{"/endless", [&pieces](const HttpRequest&) {
                            HttpReply reply;
                            reply.next = [&pieces] { return ++pieces, "piece"; };
                            return reply;
                          }};
  auto server = *HttpServer::Start("--page", "0", {endless}, {.threads = 2});
  RawConnection reader(*server, "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reader.Read(1000), HasSubstr("piece"));
  server.reset();
  EXPECT_GT(pieces, 1);
}

}  // namespace
}  // namespace oneflow
