// The page of `diff`.
#pragma once

#include <string>

#include "report/difference.h"

namespace stweaver {

/// What changed from trace `a` to trace `b`, whose difference this is, and what both ask for over the step in
/// which they ask for the most (over all of a trace without steps). One HTML file that needs nothing else;
/// texts from traces are never read as HTML.
std::string diff_page_html(const Trace& a, const Trace& b, const Difference& difference);

}  // namespace stweaver
