#include "profile/steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "profile/step_boundary.h"
#include "profile/step_period.h"
#include "profile/timeline.h"

namespace stweaver {
namespace {

/// True for "iteration 3", "step: 3", "ProfilerStep#3" and the like: a step word, then punctuation, then a
/// number.
bool names_step(std::string_view label) {
  std::string lower(label);
  // Not std::tolower(): the program may have set a locale in which an I is no i.
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const std::string_view word :
       {"profilerstep", "train_step", "training step", "iteration", "iter", "step"}) {
    if (!lower.starts_with(word)) continue;
    std::string_view rest = std::string_view(lower).substr(word.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :#_=-"), rest.size()));
    return !rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

/// How many requests each of the steps makes.
std::vector<RequestId> requests_in(const Trace& trace, const std::vector<Lifespan>& spans) {
  const std::vector<RequestId> births = births_before(trace);
  std::vector<RequestId> counts;
  counts.reserve(spans.size());
  for (const Lifespan& span : spans)
    counts.push_back(births[static_cast<std::size_t>(span.upper)] -
                     births[static_cast<std::size_t>(span.lower)]);
  return counts;
}

RequestId median(std::vector<RequestId> counts) {
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  return *middle;
}

void drop_last_if_cut_short(const Trace& trace, std::vector<Lifespan>& spans) {
  if (spans.size() < 3) return;
  std::vector<RequestId> counts = requests_in(trace, spans);
  const RequestId last = counts.back();
  counts.pop_back();
  if (last < kWholeStep * median(std::move(counts))) spans.pop_back();
}

std::vector<Lifespan> spans_between(const std::vector<Time>& boundaries) {
  std::vector<Lifespan> spans;
  for (std::size_t i = 1; i < boundaries.size(); ++i) spans.push_back({boundaries[i - 1], boundaries[i]});
  return spans;
}

/// Steps from the request stream alone. Strings of requests that occur once per step, at even distances, give
/// the period; a step's boundary is where the memory that steps hold is lowest and, among equals, where the
/// program paused longest.
Steps steps_from_repetition(const Trace& trace) {
  Steps none{StepSource::kNone,
             {},
             "no repetition was found: record at least three steps, or mark them (stweaver.mark_step())"};
  const Tokens structure = structure_tokens(trace);
  const Tokens sizes = size_tokens(trace);
  std::optional<Occurrences> anchors = find_anchors(structure, sizes);
  if (!anchors) return none;
  const std::vector<Time> boundaries = find_boundaries(trace, structure, sizes, *std::move(anchors));
  if (boundaries.size() < 2) return none;
  return {StepSource::kRepetition, spans_between(boundaries), ""};
}

}  // namespace

Steps steps_from_marks(const Trace& trace) {
  std::vector<Time> boundaries;
  std::string_view current;
  bool ended = false;
  for (const Mark& mark : trace.marks) {
    if (ended) break;
    ended = !boundaries.empty() && mark.label == "end";
    // A step's label comes again where metadata was lost in between: autograd's threads do not carry it.
    if (!ended && (!names_step(mark.label) || mark.label == current)) continue;
    current = mark.label;
    if (boundaries.empty() || mark.time > boundaries.back()) boundaries.push_back(mark.time);
  }
  if (boundaries.empty()) return {StepSource::kNone, {}, "the trace has no step marks"};
  if (!ended && boundaries.back() < trace.end) boundaries.push_back(trace.end);
  Steps steps{StepSource::kMarks, spans_between(boundaries), ""};
  if (!ended) drop_last_if_cut_short(trace, steps.spans);
  return steps;
}

Steps find_steps(const Trace& trace) {
  Steps steps = steps_from_marks(trace);
  return steps.spans.empty() ? steps_from_repetition(trace) : steps;
}

Steps longest_run_alike(const Trace& trace, const Steps& steps) {
  Steps run = steps;
  run.spans.clear();
  if (steps.spans.empty()) return run;
  const std::vector<RequestId> counts = requests_in(trace, steps.spans);
  const auto is_odd = [usual = std::int64_t{median(counts)}](RequestId count) {
    return std::abs(std::int64_t{count} - usual) > usual / kMisfitShare;
  };
  if (2 * std::ranges::count_if(counts, is_odd) >= std::ssize(counts)) return run;
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t end = 0;
  for (auto at = counts.begin(); at != counts.end();) {
    const auto first = std::find_if_not(at, counts.end(), is_odd);
    at = std::find_if(first, counts.end(), is_odd);
    if (at - first < end - begin || at == first) continue;
    begin = first - counts.begin();
    end = at - counts.begin();
  }
  run.spans.assign(steps.spans.begin() + std::max<std::ptrdiff_t>(begin - 1, 0), steps.spans.begin() + end);
  return run;
}

}  // namespace stweaver
