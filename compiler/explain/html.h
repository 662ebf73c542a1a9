// The same explanation as a page: the graph in layers, scopes that open and close, tensors coloured by their SBP,
// boxings as thick edges with bytes and time, the text of explain.h for each clicked item.
//
//   GatherFacts ─► facts as JSON (html.cc) ─┐
//                  page, style, program (page.h) ──► one file that needs nothing else and no network
#pragma once

#include <string>

#include "compiler/explain/facts.h"

namespace oneflow {

std::string ExplainAsHtml(const JobFacts& job);

// `text` as a JSON string with its quotes, such that it may also stand inside an HTML script element.
std::string JsonString(absl::string_view text);

}  // namespace oneflow
