// What the program logs while it lives.
#pragma once

#include <ctime>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "glog/logging.h"

namespace oneflow::testing {

class LogCapture : public google::LogSink {
 public:
  LogCapture() { google::AddLogSink(this); }
  ~LogCapture() override { google::RemoveLogSink(this); }

  void send(google::LogSeverity, const char*, const char*, int, const std::tm*, const char* message,
            size_t length) override {
    absl::MutexLock lock(&mu_);
    absl::StrAppend(&text_, absl::string_view(message, length), "\n");
  }
  std::string text() const {
    absl::MutexLock lock(&mu_);
    return text_;
  }
  // Whether this is said within a time that is long for whatever is awaited.
  bool Await(absl::string_view said) const {
    const auto is_said = [this, said]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return absl::StrContains(text_, said); };
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&is_said), absl::Seconds(20));
  }

 private:
  mutable absl::Mutex mu_;
  std::string text_ ABSL_GUARDED_BY(mu_);
};

}  // namespace oneflow::testing
