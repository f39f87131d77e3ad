#include "profile/scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/base.h"

namespace stweaver {
namespace {

/// Sizes are rounded: to multiples of a tile, to whole rows.
constexpr double kTolerance = 0.01;
constexpr double kSlack = 1024;
/// Of a size that follows nothing, what its largest has over its smallest may lie idle. That may be this
/// share of the bytes that vary: half of the run time's slack.
constexpr double kIdle = 0.5 / static_cast<double>(kSlackShare);
/// What has fewer tiles is not taken for a size that is rounded up to them.
constexpr double kFewestTiles = 8;
/// Of a tile, what may be lost to rounding of doubles.
constexpr double kRounding = 1e-6;
/// Fewer do not tell what sizes follow.
constexpr std::size_t kFewestSteps = 3;
/// Lengths that do not go together make up for no more than this share of what the longest step needs: a plan
/// may need twice the run time's slack more than steps do.
constexpr Bytes kApart = kSlackShare / 2;
/// So many sizes follow a length at least: one alone would follow itself.
constexpr std::size_t kFollowers = 2;

/// What one position held in each step; 0 where it was not.
using Sizes = std::vector<Bytes>;

/// A size at a share of the largest batch seen: a sum of powers of the share.
struct Form {
  std::array<double, 3> factors = {};
  double tile = 0;                                       ///< rounded up to multiples of it; 0 where it is not
  double cap = std::numeric_limits<double>::infinity();  ///< and no larger than this

  [[nodiscard]] double at(double share) const {
    const double size = factors[0] + factors[1] * share + factors[2] * share * share;
    return std::min(tile > 0 ? std::ceil(size / tile - kRounding) * tile : size, cap);
  }
  [[nodiscard]] bool is_capped() const { return std::isfinite(cap); }
  /// What it grows with, where that is one power of the share or nearly so.
  [[nodiscard]] std::uint8_t power() const {
    return factors[2] > 0 ? 2 : factors[0] > 0 || is_capped() ? 0 : 1;
  }
};

/// Sizes and the shares they were asked for at.
struct Samples {
  std::vector<double> shares;
  std::vector<double> sizes;
};

bool agrees(const Form& form, const Samples& samples) {
  for (std::size_t k = 0; k < samples.sizes.size(); ++k) {
    if (!are_about_equal(form.at(samples.shares[k]), samples.sizes[k])) return false;
  }
  return true;
}

double squared_error(const Form& form, const Samples& samples) {
  double sum = 0;
  for (std::size_t k = 0; k < samples.sizes.size(); ++k)
    sum += std::pow(form.at(samples.shares[k]) - samples.sizes[k], 2);
  return sum;
}

/// The least squares of one power.
Form fit(const Samples& samples, int power) {
  double products = 0;
  double squares = 0;
  for (std::size_t k = 0; k < samples.sizes.size(); ++k) {
    const double basis = std::pow(samples.shares[k], power);
    products += basis * samples.sizes[k];
    squares += basis * basis;
  }
  Form form;
  form.factors[static_cast<std::size_t>(power)] = squares > 0 ? products / squares : 0;
  return form;
}

/// The least squares of two powers; nothing when the samples do not tell them apart or a size would shrink as
/// the batch grows.
std::optional<Form> fit(const Samples& samples, int lower, int upper) {
  double ll = 0;
  double lu = 0;
  double uu = 0;
  double ls = 0;
  double us = 0;
  for (std::size_t k = 0; k < samples.sizes.size(); ++k) {
    const double low = std::pow(samples.shares[k], lower);
    const double up = std::pow(samples.shares[k], upper);
    ll += low * low;
    lu += low * up;
    uu += up * up;
    ls += low * samples.sizes[k];
    us += up * samples.sizes[k];
  }
  const double determinant = ll * uu - lu * lu;
  if (determinant <= 1e-9 * ll * uu) return std::nullopt;
  Form form;
  form.factors[static_cast<std::size_t>(lower)] = (ls * uu - us * lu) / determinant;
  form.factors[static_cast<std::size_t>(upper)] = (us * ll - ls * lu) / determinant;
  if (*std::min_element(form.factors.begin(), form.factors.end()) < 0) return std::nullopt;
  return form;
}

/// In proportion to the share, rounded up to whole tiles: attention's kernels work on so many rows at a time.
std::optional<Form> fit_tiles(const Samples& samples) {
  std::int64_t common = 0;
  for (const double size : samples.sizes) common = std::gcd(common, static_cast<std::int64_t>(size));
  const auto tile = static_cast<double>(common);
  if (kFewestTiles * tile > *std::max_element(samples.sizes.begin(), samples.sizes.end()))
    return std::nullopt;
  double above = 0;
  double most = std::numeric_limits<double>::max();
  for (std::size_t k = 0; k < samples.sizes.size(); ++k) {
    above = std::max(above, (samples.sizes[k] - tile) / samples.shares[k]);
    most = std::min(most, samples.sizes[k] / samples.shares[k]);
  }
  return above < most ? std::optional(Form{.factors = {0, most, 0}, .tile = tile}) : std::nullopt;
}

/// In proportion to the share, up to a size that batches of different length reach: kernels keep partial sums
/// for the rows that they work on at one time, and a device has so many at most.
std::optional<Form> fit_capped(const Samples& samples) {
  const double cap = *std::ranges::max_element(samples.sizes);
  Samples below;
  double shortest = 1;
  double longest = 0;
  for (std::size_t k = 0; k < samples.sizes.size(); ++k) {
    if (samples.sizes[k] < cap) {
      below.shares.push_back(samples.shares[k]);
      below.sizes.push_back(samples.sizes[k]);
    } else {
      shortest = std::min(shortest, samples.shares[k]);
      longest = std::max(longest, samples.shares[k]);
    }
  }
  if (are_about_equal(shortest * cap, longest * cap)) return std::nullopt;
  Form form = fit(below, 1);
  form.cap = cap;
  return form;
}

/// The simplest form that agrees with every sample; of the single powers the nearer, for where lengths hardly
/// differ both may agree.
std::optional<Form> find_form(const Samples& samples) {
  const Form linear = fit(samples, 1);
  const Form square = fit(samples, 2);
  const Form& nearer = squared_error(square, samples) < squared_error(linear, samples) ? square : linear;
  if (agrees(nearer, samples)) return nearer;
  if (const std::optional<Form> tiles = fit_tiles(samples)) return tiles;
  for (const auto& [lower, upper] : {std::pair(0, 1), {1, 2}}) {
    const std::optional<Form> form = fit(samples, lower, upper);
    if (form && agrees(*form, samples)) return form;
  }
  if (const std::optional<Form> capped = fit_capped(samples); capped && agrees(*capped, samples))
    return capped;
  return std::nullopt;
}

/// The positions whose sizes vary, and what each held.
class VaryingSizes {
 public:
  VaryingSizes(const Pattern& pattern, const Trace& trace) {
    row_of_.resize(pattern.positions.size(), kNone);
    for (std::uint32_t p = 0; p < pattern.positions.size(); ++p) {
      const Position& position = pattern.positions[p];
      if (position.kind != PositionKind::kVarying || position.size == position.smallest) continue;
      row_of_[p] = positions_.size();
      positions_.push_back(p);
      largest_.push_back(static_cast<double>(position.size));
    }
    sizes_.assign(positions_.size(), Sizes(pattern.steps.size(), 0));
    for (std::size_t k = 0; k < pattern.steps.size(); ++k) {
      const AlignedStep& step = pattern.steps[k];
      for (std::size_t i = 0; i < step.position_of.size(); ++i) {
        const std::size_t row = row_of_[step.position_of[i]];
        if (row != kNone) sizes_[row][k] = trace.requests[step.first + i].size;
      }
    }
  }

  [[nodiscard]] const std::vector<std::uint32_t>& positions() const { return positions_; }

  [[nodiscard]] std::vector<std::size_t> rows_of(const std::vector<std::size_t>& positions) const {
    std::vector<std::size_t> rows;
    for (const std::size_t p : positions) {
      if (row_of_[p] != kNone) rows.push_back(row_of_[p]);
    }
    return rows;
  }

  /// By step: the share of their largest that half of the rows' bytes needed at most; 0 where there are none.
  [[nodiscard]] std::vector<double> shares_of(const std::vector<std::size_t>& rows) const {
    std::vector<double> shares;
    std::vector<std::pair<double, double>> weighed;
    for (std::size_t k = 0; k < sizes_.front().size(); ++k) {
      weighed.clear();
      double bytes = 0;
      for (const std::size_t row : rows) {
        if (sizes_[row][k] == 0) continue;
        weighed.emplace_back(static_cast<double>(sizes_[row][k]) / largest_[row], largest_[row]);
        bytes += largest_[row];
      }
      std::sort(weighed.begin(), weighed.end());
      double below = 0;
      const auto middle = std::find_if(weighed.begin(), weighed.end(), [&](const auto& share) {
        return 2 * (below += share.second) >= bytes;
      });
      shares.push_back(middle == weighed.end() ? 0 : middle->first);
    }
    return shares;
  }

  /// By step: the share of the longest batch. Half of the bytes tell it, or its square, where attention keeps
  /// its scores: whichever more of the rows are in proportion to.
  [[nodiscard]] std::vector<double> lengths_of(const std::vector<std::size_t>& rows) const {
    const std::vector<double> shares = shares_of(rows);
    std::vector<double> roots = shares;
    for (double& root : roots) root = std::sqrt(root);
    const auto in_proportion = [&](const std::vector<double>& lengths) {
      return std::ranges::count_if(rows, [&](std::size_t row) {
        const std::optional<Form> form = find_form(samples(row, lengths));
        return form && form->power() == 1;
      });
    };
    return in_proportion(roots) > in_proportion(shares) ? roots : shares;
  }

  /// The row's sizes at the shares of each step.
  [[nodiscard]] Samples samples(std::size_t row, const std::vector<double>& shares) const {
    Samples samples;
    for (std::size_t k = 0; k < shares.size(); ++k) {
      if (sizes_[row][k] == 0) continue;
      samples.shares.push_back(shares[k]);
      samples.sizes.push_back(static_cast<double>(sizes_[row][k]));
    }
    return samples;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::vector<std::uint32_t> positions_;
  std::vector<std::size_t> row_of_;  ///< by position; kNone where the size does not vary
  std::vector<double> largest_;
  std::vector<Sizes> sizes_;  ///< by row, by step
};

/// What may lie idle of sizes that follow nothing, and of what steps lack, beside all bytes that vary.
struct Leftover {
  double all = 0;
  double idle = 0;

  void add(const Position& position, bool follows) {
    all += static_cast<double>(position.size);
    if (!follows) idle += static_cast<double>(position.size - position.smallest);
  }
  [[nodiscard]] bool is_small() const { return all > 0 && idle <= kIdle * all; }
};

/// What moves on its own (experts) follows nothing.
Leftover dynamic_leftover(const Pattern& pattern) {
  Leftover leftover;
  for (const Position& position : pattern.positions) {
    if (position.kind == PositionKind::kDynamic) leftover.add(position, false);
  }
  return leftover;
}

/// A size is believed to come to so many times the largest that was seen, where batches are longer.
constexpr Bytes kMostGrowth = 2;

/// Sizes a position by the length of its batch, whose share of the longest the samples have.
void follow_length(Position& position, const Samples& samples) {
  const std::optional<Form> form = find_form(samples);
  const auto longest = form ? std::round(form->at(1)) : 0.0;
  // It met none but short batches, or a batch that is not its own.
  if (samples.sizes.size() < kFewestSteps || longest > static_cast<double>(kMostGrowth * position.size))
    return;
  position.power = form ? form->power() : 0;
  position.is_foretold = form && (position.power > 0 || form->is_capped());
  position.tile = form ? static_cast<Bytes>(form->tile) : 0;
  position.size = std::max(position.size, static_cast<Bytes>(longest));
}

/// The number of a batch's length: of the one that another batch has found to be just so long in every step,
/// or else its place among the batch's own.
std::size_t number_of(const Pattern& pattern, const std::vector<double>& shares, std::size_t place) {
  const auto is_it = [&](const std::vector<double>& length) {
    return std::ranges::equal(length, shares, [](double there, double here) {
      return here == 0 || std::abs(there - here) <= kTolerance * here;
    });
  };
  const auto found = std::ranges::find_if(pattern.lengths, is_it);
  return found == pattern.lengths.end() ? place : static_cast<std::size_t>(found - pattern.lengths.begin());
}

/// A step's length is that of its longest batch.
void note_shares(Pattern& pattern, std::size_t length, const std::vector<double>& shares) {
  if (pattern.lengths.size() <= length) pattern.lengths.resize(length + 1, std::vector(shares.size(), 0.0));
  std::vector<double>& longest = pattern.lengths[length];
  for (std::size_t k = 0; k < shares.size(); ++k) longest[k] = std::max(longest[k], shares[k]);
}

/// The most that is alive at one time where each position has such a size.
Bytes peak_of(const Pattern& pattern, const std::function<Bytes(const Position&)>& size_of) {
  const std::size_t end = pattern.positions.size();
  std::vector<Bytes> change(end + 1, 0);
  for (std::size_t p = 0; p < end; ++p) {
    const Position& position = pattern.positions[p];
    const auto death = static_cast<std::size_t>(std::min(position.death, static_cast<Time>(2 * end)));
    const Bytes size = size_of(position);
    change[p] += size;
    change[std::min(death, end)] -= size;
    if (death <= end) continue;
    change[0] += size;
    change[death - end] -= size;
  }
  Bytes alive = 0;
  Bytes most = 0;
  for (const Bytes by : change) most = std::max(most, alive += by);
  return most;
}

/// Whether in no two steps the one length is longer and the other shorter.
bool go_together(const std::vector<double>& one, const std::vector<double>& other) {
  const auto is_longer = [](double a, double b) { return a > (1 + kTolerance) * b; };
  for (std::size_t j = 0; j < one.size(); ++j) {
    for (std::size_t k = 0; k < one.size(); ++k) {
      if (is_longer(one[j], one[k]) && is_longer(other[k], other[j])) return false;
    }
  }
  return true;
}

/// Whether all lengths go together, but for those that hardly matter: with them at their shortest the longest
/// step needs nearly as much.
bool lengths_go_together(const Pattern& pattern) {
  std::vector<double> shares;
  for (const std::vector<double>& length : pattern.lengths) {
    const bool is_apart = !go_together(pattern.lengths.front(), length);
    shares.push_back(is_apart ? *std::ranges::min_element(length) : 1);
  }
  const Bytes longest = peak_of(pattern, [](const Position& position) { return position.size; });
  const Bytes without = peak_of(pattern, [&](const Position& position) {
    if (!position.is_foretold || position.power == 0) return position.size;
    return static_cast<Bytes>(std::pow(shares[position.length], position.power) *
                              static_cast<double>(position.size));
  });
  return longest - without <= longest / kApart;
}

}  // namespace

bool are_about_equal(double expected, double size) {
  return std::abs(expected - size) <= kTolerance * size + kSlack;
}

bool are_in_ratio(double ratio, const Position& other, const Position& position) {
  const double expected = ratio * static_cast<double>(other.size);
  const auto size = static_cast<double>(position.size);
  if (are_about_equal(expected, size)) return true;
  const Bytes tile =
      std::gcd(std::gcd(other.size, other.smallest), std::gcd(position.size, position.smallest));
  return kFewestTiles * static_cast<double>(tile) <= std::min(static_cast<double>(other.size), size) &&
         std::abs(expected - size) <= std::max(ratio, 1.0) * static_cast<double>(tile);
}

bool lengths_foretell_sizes(const Pattern& pattern) {
  // What a step lacks lies idle in it. And where sizes follow several lengths they do not tell which request
  // is which: the order has to.
  const bool has_several = pattern.lengths.size() > 1;
  const std::vector<std::size_t> steps = steps_with_each(pattern);
  const auto all = static_cast<double>(pattern.steps.size());
  Leftover leftover = dynamic_leftover(pattern);
  for (std::size_t p = 0; p < steps.size(); ++p) {
    const Position& position = pattern.positions[p];
    const bool varies = position.kind == PositionKind::kVarying && position.size != position.smallest;
    if (varies) leftover.add(position, position.is_foretold);
    const double lacking = 1 - static_cast<double>(steps[p]) / all;
    if (lacking > 0) leftover.idle += (has_several ? 1 : lacking) * static_cast<double>(position.size);
  }
  return leftover.is_small() && (!has_several || lengths_go_together(pattern));
}

void fit_to_longest(Pattern& pattern, const Trace& trace,
                    const std::vector<std::vector<std::size_t>>& batches, std::size_t lengths) {
  const VaryingSizes varying(pattern, trace);
  for (const std::vector<std::size_t>& batch : batches) {
    std::vector<std::size_t> rows = varying.rows_of(batch);
    for (std::size_t place = 0; place < lengths && !rows.empty(); ++place) {
      const std::vector<double> shares = varying.lengths_of(rows);
      const std::size_t length = number_of(pattern, shares, place);
      std::vector<std::size_t> others;
      for (const std::size_t row : rows) {
        Position& position = pattern.positions[varying.positions()[row]];
        follow_length(position, varying.samples(row, shares));
        if (position.is_foretold) {
          position.length = static_cast<std::uint8_t>(length);
        } else {
          others.push_back(row);
        }
      }
      if (others.size() == rows.size()) break;
      note_shares(pattern, length, shares);
      if (others.size() < kFollowers) break;
      rows = std::move(others);
    }
  }
}

}  // namespace stweaver
