// The page without its data: what a browser loads first.
#pragma once

namespace oneflow {

extern const char kPage[];            // the document
extern const char kPageStyle[];       // page.css
extern const char kPageProgram[];     // page.js
extern const char kPageJobProgram[];  // job.js, which is loaded before it

}  // namespace oneflow
