// The page of `oneflow plan explain --html`: one document that needs nothing else and no network.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace oneflow {

// The page of that data, a JSON object as html.cc writes it.
std::string GraphPage(absl::string_view data);

// Its parts: the style sheet, and the program in the order in which it is read.
extern const char kGraphPageStyle[];
extern const char kGraphPagePanels[];   // what is shown beside the drawing, in words
extern const char kGraphPageDrawing[];  // the drawing of what is visible
extern const char kGraphPageChoices[];  // what clicks and keys do

}  // namespace oneflow
