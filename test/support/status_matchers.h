// EXPECT_OK and friends for absl::Status and absl::StatusOr, which this Abseil lacks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow::testing {

// A text that must be refused, and a part of the message that must say why.
struct BadText {
  const char* text;
  const char* message;
};

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(GetStatus(arg).message()), result_listener);
}

}  // namespace oneflow::testing

#define EXPECT_OK(expr) EXPECT_THAT((expr), ::oneflow::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT((expr), ::oneflow::testing::IsOk())

// ASSERT_OK_AND_ASSIGN(auto x, StatusOrReturning());
#define OF_TEST_CONCAT_INNER(a, b) a##b
#define OF_TEST_CONCAT(a, b) OF_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) ASSERT_OK_AND_ASSIGN_IMPL(OF_TEST_CONCAT(of_test_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  ASSERT_OK(tmp);                                 \
  lhs = *std::move(tmp)
