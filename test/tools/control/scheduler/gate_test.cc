// What callers may ask of a scheduler that has a file of tokens.
#include "tools/control/scheduler/gate.h"

#include <google/protobuf/descriptor.h>

#include "gmock/gmock.h"
#include "proto/control.grpc.pb.h"
#include "test/support/log_capture.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/client.h"
#include "tools/control/http/httplib.h"
#include "tools/control/rpc/rpc.h"
#include "tools/control/scheduler/service.h"
#include "tools/control/security/tokens.h"
#include "tools/page/page.h"

namespace oneflow {
namespace {

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kUnauthenticated = absl::StatusCode::kUnauthenticated;

class GateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, role] : {std::pair{"reader", UserRole::kRead},
                                     {"alice", UserRole::kSubmit},
                                     {"bob", UserRole::kSubmit},
                                     {"root", UserRole::kAdmin}}) {
      ASSERT_OK_AND_ASSIGN(tokens_[name], AddToken(file_, name, role));
    }
    SchedulerOptions options{.db_path = dir_.File("jobs.db"), .page = "0", .serve_page = ServePage, .tokens = file_};
    ASSERT_OK_AND_ASSIGN(scheduler_, SchedulerServer::Start(options));
  }
  std::unique_ptr<Client> As(const std::string& name) { return WithToken(tokens_.at(name)); }
  std::unique_ptr<Client> WithToken(const std::string& token) const {
    absl::StatusOr<std::unique_ptr<Client>> client =
        Client::Connect({scheduler_->address(), {}, token}, absl::Seconds(10));
    EXPECT_OK(client);
    return *std::move(client);
  }
  // How an empty request of any method ends, without a token.
  grpc::Status CallWithoutToken(const std::string& method) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    return CallWithNothing(OpenChannel(scheduler_->address()), method, context);
  }

  const TestDir dir_;
  const std::string file_ = dir_.File("tokens");
  std::map<std::string, std::string> tokens_;
  std::unique_ptr<SchedulerServer> scheduler_;
};

// Whatever the service comes to offer.
TEST_F(GateTest, NoCallOfUsersIsWithoutAToken) {
  const auto* const service = pb::SubmitRequest::descriptor()->file()->FindServiceByName("Scheduler");
  ASSERT_NE(service, nullptr);
  int calls = 0;
  for (int i = 0; i < service->method_count(); ++i) {
    if (service->method(i)->name() == "DaemonSession") continue;  // of a part of the cluster: by its certificate
    const grpc::Status status =
        CallWithoutToken(absl::StrCat("/", service->full_name(), "/", service->method(i)->name()));
    EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED) << service->method(i)->name() << status.error_message();
    ++calls;
  }
  EXPECT_GE(calls, 10);
}

TEST_F(GateTest, AReaderOnlyLooks) {
  const auto reader = As("reader"), alice = As("alice");
  ASSERT_OK_AND_ASSIGN(const int64_t job, alice->Submit(EmptyJob(1, 1)));
  EXPECT_OK(reader->List());
  EXPECT_OK(reader->Nodes());
  EXPECT_OK(reader->Describe(job));
  const absl::string_view why = "the token of 'reader' has the role 'read'; this takes 'submit'";
  EXPECT_THAT(reader->Submit(EmptyJob(1, 1)).status(), StatusIs(kDenied, HasSubstr(std::string(why))));
  EXPECT_THAT(reader->Cancel(job), StatusIs(kDenied, HasSubstr(std::string(why))));
  EXPECT_THAT(reader->Retry(job), StatusIs(kDenied, HasSubstr(std::string(why))));
  EXPECT_THAT(reader->Drain("d0", false), StatusIs(kDenied, HasSubstr("this takes 'admin'")));
}

TEST_F(GateTest, AJobIsItsTokensAndNoOtherUserEndsIt) {
  const auto alice = As("alice"), bob = As("bob"), root = As("root");
  ASSERT_OK_AND_ASSIGN(const int64_t first, alice->Submit(EmptyJob(1, 1)));
  ASSERT_OK_AND_ASSIGN(const int64_t second, alice->Submit(EmptyJob(1, 1)));
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobStatus> jobs, bob->List());
  EXPECT_EQ(jobs[0].user(), "alice") << "whoever the process is that said so";
  EXPECT_THAT(
      bob->Cancel(first),
      StatusIs(kDenied, HasSubstr("job 1: it is 'alice's; the token of 'bob' has the role 'submit', which is for "
                                  "jobs of its own")));
  EXPECT_THAT(bob->Drain("d0", false), StatusIs(kDenied, HasSubstr("this takes 'admin'")));
  EXPECT_OK(alice->Cancel(first));
  EXPECT_THAT(bob->Retry(first), StatusIs(kDenied, HasSubstr("job 1: it is 'alice's")));
  EXPECT_OK(alice->Retry(first));
  EXPECT_OK(root->Cancel(second));
  EXPECT_THAT(root->Drain("d0", false), StatusIs(absl::StatusCode::kNotFound, HasSubstr("d0")));
}

TEST_F(GateTest, ThePageIsForReaders) {
  const LogCapture log;
  std::string url = scheduler_->page_url();
  url.pop_back();
  httplib::Client browser(url);
  for (const char* path : {"/", "/page.js", "/job.js", "/api/jobs", "/api/live", "/nothing"}) {
    const httplib::Result refused = browser.Get(path);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 401) << path;
  }
  EXPECT_THAT(log.text(), HasSubstr("refused to look at the page for 127.0.0.1: no token came"));
  browser.set_basic_auth("anyone", tokens_.at("reader"));
  EXPECT_EQ(browser.Get("/api/jobs")->status, 200);
  browser.set_basic_auth("reader", std::string(64, 'a'));
  EXPECT_EQ(browser.Get("/api/jobs")->status, 401);
}

TEST_F(GateTest, RefusalsAreLoggedWithWhoAndWhatUpToAPoint) {
  const LogCapture log;
  EXPECT_THAT(As("alice")->Drain("d0", false).code(), kDenied);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("refused to drain a node for ipv4:127.0.0.1:"),
                                HasSubstr("the token of 'alice' has the role 'submit'; this takes 'admin'")));
  const std::string wrong(64, 'a');
  const auto stranger = WithToken(wrong);
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(stranger->List().status(),
                StatusIs(kUnauthenticated, HasSubstr("the caller's token is not known here")));
  }
  const std::string text = log.text();
  EXPECT_THAT(text, AllOf(HasSubstr("refused to list jobs"), Not(HasSubstr(wrong))));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 15) << "a caller does not fill the log";
}

TEST_F(GateTest, ATokenThatIsRemovedIsRefusedAtOnce) {
  const auto alice = As("alice");
  EXPECT_OK(alice->List());
  ASSERT_OK(RemoveToken(file_, "alice"));
  EXPECT_THAT(alice->List().status(), StatusIs(kUnauthenticated, HasSubstr("not known here")));
}

TEST_F(GateTest, AServerWithoutItsTokensDoesNotServe) {
  EXPECT_THAT(SchedulerServer::Start({.db_path = dir_.File("other.db"), .tokens = dir_.File("none")}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("tokens: '")));
}

}  // namespace
}  // namespace oneflow
