#include "profile/micro_batches.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "profile/scale.h"

namespace stweaver {
namespace {

/// Of the most that a micro-batch has alive, so small a share is left over between two.
constexpr Bytes kLeftOver = 256;
/// So many sizes in one proportion are no chance.
constexpr std::size_t kFewest = 16;

/// The positions of one micro-batch whose sizes vary.
using MicroBatch = std::vector<std::size_t>;

std::vector<MicroBatch> find_micro_batches(const Pattern& pattern) {
  std::vector<MicroBatch> batches(1);
  std::vector<Bytes> freed(pattern.positions.size() + 1);
  Bytes alive = 0;
  Bytes most = 0;
  for (std::size_t p = 0; p < pattern.positions.size(); ++p) {
    const Position& position = pattern.positions[p];
    alive -= freed[p];
    if (alive <= most / kLeftOver && !batches.back().empty()) {
      batches.emplace_back();
      most = 0;
    }
    if (position.size == position.smallest || position.kind != PositionKind::kVarying) continue;
    batches.back().push_back(p);
    alive += position.size;
    most = std::max(most, alive);
    freed[std::min(static_cast<std::size_t>(position.death), pattern.positions.size())] += position.size;
  }
  return batches;
}

/// Whether the sizes of `b` are those of `a` times one number.
bool are_alike(const Pattern& pattern, const MicroBatch& a, const MicroBatch& b) {
  if (a.size() != b.size() || a.size() < kFewest) return false;
  const auto size = [&](std::size_t p) { return static_cast<double>(pattern.positions[p].size); };
  const auto largest = std::ranges::max_element(a, {}, size) - a.begin();
  const auto at = static_cast<std::size_t>(largest);
  const double ratio = size(b[at]) / size(a[at]);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!are_about_equal(ratio * size(a[i]), size(b[i]))) return false;
  }
  return true;
}

}  // namespace

void level_micro_batches(Pattern& pattern, const Trace& trace) {
  if (!sizes_follow_one_length(pattern, trace)) return;
  const std::vector<MicroBatch> batches = find_micro_batches(pattern);
  for (std::size_t a = 0; a < batches.size(); ++a) {
    for (std::size_t b = a + 1; b < batches.size(); ++b) {
      if (!are_alike(pattern, batches[a], batches[b])) continue;
      for (std::size_t i = 0; i < batches[a].size(); ++i) {
        Bytes& one = pattern.positions[batches[a][i]].size;
        Bytes& other = pattern.positions[batches[b][i]].size;
        one = other = std::max(one, other);
      }
    }
  }
}

}  // namespace stweaver
