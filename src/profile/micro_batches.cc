#include "profile/micro_batches.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "profile/scale.h"

namespace stweaver {
namespace {

/// Of the most that a micro-batch has alive, so small a share is left over between two.
constexpr Bytes kLeftOver = 256;
/// So many sizes in one proportion are no chance.
constexpr std::size_t kFewest = 16;
/// Of two micro-batches that are alike, all requests are the same but for one in so many.
constexpr std::size_t kMost = 10;
/// So many requests in a row may be one's alone.
constexpr std::size_t kLeftOut = 8;

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

/// The same, but what is too little to be a batch belongs to the one behind it.
std::vector<MicroBatch> join_small(const std::vector<MicroBatch>& batches) {
  std::vector<MicroBatch> joined(1);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    joined.back().insert(joined.back().end(), batches[i].begin(), batches[i].end());
    if (batches[i].size() >= kFewest && i + 1 < batches.size()) joined.emplace_back();
  }
  return joined;
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// The requests of two micro-batches that are the same, when all sizes of one are those of the other times
/// one number: in order, with some left out on either side. Empty when hardly any are.
Pairs same_requests(const Pattern& pattern, const MicroBatch& a, const MicroBatch& b) {
  if (kMost * std::min(a.size(), b.size()) < (kMost - 1) * std::max(a.size(), b.size())) return {};
  const auto at = [&](std::size_t p) -> const Position& { return pattern.positions[p]; };
  const auto median = [&](MicroBatch batch) {
    const auto middle = batch.begin() + static_cast<std::ptrdiff_t>(batch.size() / 2);
    std::ranges::nth_element(batch, middle, {}, [&](std::size_t p) { return at(p).size; });
    return static_cast<double>(at(*middle).size);
  };
  const double ratio = median(b) / median(a);
  const auto are_same = [&](std::size_t i, std::size_t j) {
    return i < a.size() && j < b.size() && are_in_ratio(ratio, at(a[i]), at(b[j]));
  };
  Pairs pairs;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    std::size_t out = 0;  // left out, of one or the other
    while (out <= kLeftOut && !are_same(i + out, j) && !are_same(i, j + out)) ++out;
    if (out > kLeftOut) {
      ++i, ++j;
      continue;
    }
    if (are_same(i + out, j)) {
      i += out;
    } else {
      j += out;
    }
    pairs.emplace_back(a[i++], b[j++]);
  }
  return kMost * pairs.size() >= (kMost - 1) * std::max(a.size(), b.size()) ? pairs : Pairs();
}

/// What is the same in micro-batches that are alike, each compared with the last before it that it is like.
Pairs same_requests(const Pattern& pattern, const std::vector<MicroBatch>& batches) {
  std::vector<const MicroBatch*> kinds;  // the last one of each
  Pairs all;
  for (const MicroBatch& batch : batches) {
    if (batch.size() < kFewest) continue;
    Pairs pairs;
    const auto like = std::ranges::find_if(kinds, [&](const MicroBatch* last) {
      pairs = same_requests(pattern, *last, batch);
      return !pairs.empty();
    });
    if (like == kinds.end()) {
      kinds.push_back(&batch);
    } else {
      *like = &batch;
      all.insert(all.end(), pairs.begin(), pairs.end());
    }
  }
  return all;
}

}  // namespace

void level_micro_batches(Pattern& pattern, const Trace& trace) {
  const std::vector<MicroBatch> batches = find_micro_batches(pattern);
  Pattern level = pattern;
  const auto size = [&](std::size_t p) -> Bytes& { return level.positions[p].size; };
  // The largest goes from one to the next, and from the last one back.
  const Pairs same = same_requests(pattern, batches);
  for (const auto& [p, q] : same) size(q) = std::max(size(p), size(q));
  for (std::size_t i = same.size(); i-- > 0;) size(same[i].first) = size(same[i].second);
  const std::vector<MicroBatch> whole = join_small(batches);
  for (const std::size_t lengths : {std::size_t{1}, kMostLengths}) {
    Pattern fitted = level;
    fit_to_longest(fitted, trace, whole, lengths);
    if (!lengths_foretell_sizes(fitted)) continue;
    pattern = std::move(fitted);
    return;
  }
}

}  // namespace stweaver
