// Macros and helpers around absl::Status, the only way errors travel in this project.
//
// An error says where, what is wrong and both values; each layer adds its "where" once with Annotate().
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace oneflow {

// `status` with "where: " put before its message; an OK status is returned as it is.
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

}  // namespace oneflow

#define OF_CONCAT_INNER(a, b) a##b
#define OF_CONCAT(a, b) OF_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr`, an absl::Status, is not OK.
#define OF_RETURN_IF_ERROR(expr)                            \
  do {                                                      \
    if (absl::Status of_status = (expr); !of_status.ok()) { \
      return of_status;                                     \
    }                                                       \
  } while (false)

// The same, with "where: " before the message; `where` is evaluated only on error.
#define OF_RETURN_IF_ERROR_AT(expr, where)                  \
  do {                                                      \
    if (absl::Status of_status = (expr); !of_status.ok()) { \
      return ::oneflow::Annotate(of_status, (where));       \
    }                                                       \
  } while (false)

// Declares or assigns `lhs` from `expr`, an absl::StatusOr; returns its status when it holds none.
#define OF_ASSIGN_OR_RETURN(lhs, expr) OF_ASSIGN_OR_RETURN_IMPL(OF_CONCAT(of_statusor_, __LINE__), lhs, expr)
#define OF_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

// The same, with "where: " before the message; `where` is evaluated only on error.
#define OF_ASSIGN_OR_RETURN_AT(lhs, expr, where) \
  OF_ASSIGN_OR_RETURN_AT_IMPL(OF_CONCAT(of_statusor_, __LINE__), lhs, expr, where)
#define OF_ASSIGN_OR_RETURN_AT_IMPL(tmp, lhs, expr, where)          \
  auto tmp = (expr);                                                \
  if (!tmp.ok()) return ::oneflow::Annotate(tmp.status(), (where)); \
  lhs = *std::move(tmp)
