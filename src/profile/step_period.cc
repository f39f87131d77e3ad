#include "profile/step_period.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "base/base.h"

namespace stweaver {
namespace {

/// How strings of requests are compared.
struct Strings {
  std::size_t length;  ///< requests in a string
  std::size_t enough;  ///< so many strings must agree on the number of steps
};
/// Structure repeats a lot within a step, so only long strings are telling.
constexpr Strings kStructureStrings{16, 8};
/// Sizes that stay when sequence lengths vary are an optimizer's, which may be a handful of requests.
constexpr Strings kSizeStrings{4, 2};

constexpr double kInterrupted = 1.0 / 3;  // share of distances that may be longer: an evaluation lies there
constexpr double kCoverage = 0.5;         // steps make up at least this share of the trace
constexpr double kSamePeriod = 0.1;       // how far two measurements of the period may lie apart
constexpr double kStretch = 0.75;         // two steps alone must be alike for this share of the period,
constexpr double kIdentical = 0.98;       // and this much, to be believed

/// The distances between a string's occurrences, ascending.
std::vector<RequestId> distances_of(const Occurrences& occurrences) {
  std::vector<RequestId> distances;
  for (std::size_t i = 1; i < occurrences.size(); ++i)
    distances.push_back(occurrences[i] - occurrences[i - 1]);
  std::sort(distances.begin(), distances.end());
  return distances;
}

/// What the period is: the mean of the distances without those that something interrupted.
double typical_distance(const std::vector<RequestId>& distances) {
  const auto end = std::upper_bound(distances.begin(), distances.end(), kEven * distances.front());
  return std::accumulate(distances.begin(), end, 0.0) / static_cast<double>(end - distances.begin());
}

/// At most the share `interrupted` of the distances may be longer than the others; if there may be such,
/// something may follow the last one too.
bool evenly_spread(const Occurrences& occurrences, std::size_t requests, double interrupted) {
  const std::vector<RequestId> distances = distances_of(occurrences);
  const auto longer =
      distances.end() - std::upper_bound(distances.begin(), distances.end(), kEven * distances.front());
  const double period = typical_distance(distances);
  return static_cast<double>(longer) <= interrupted * static_cast<double>(distances.size()) &&
         distances.front() >= kStructureStrings.length &&
         static_cast<double>(occurrences.size()) * period >= kCoverage * static_cast<double>(requests) &&
         (interrupted > 0 || occurrences.back() + 1.5 * period >= static_cast<double>(requests));
}

/// Whether two steps with one of the two occurrences each are alike for long enough: what is left of a step
/// that the recording cut short may be anything's beginning.
bool two_steps_alike(const Tokens& tokens, const Occurrences& occurrences) {
  const std::size_t period = occurrences[1] - occurrences[0];
  const auto length = static_cast<std::size_t>(kStretch * static_cast<double>(period));
  if (tokens.size() < period + length) return false;
  std::size_t begin = occurrences[0] - std::min<std::size_t>(occurrences[0], period);
  const std::size_t last = std::min(occurrences[1], static_cast<RequestId>(tokens.size() - period)) - length;
  const auto repeats = [&](std::size_t i) { return tokens[i] == tokens[i + period] ? 1 : 0; };
  std::int64_t alike = 0;
  for (std::size_t i = begin; i < begin + length; ++i) alike += repeats(i);
  std::int64_t most = alike;
  for (; begin < last; ++begin) {
    alike += repeats(begin + length) - repeats(begin);
    most = std::max(most, alike);
  }
  return static_cast<double>(most) >= kIdentical * static_cast<double>(length);
}

/// For each number of occurrences that enough evenly spread strings share: one of those strings.
std::vector<Occurrences> find_rhythms(const Tokens& tokens, const Strings& kind, double interrupted) {
  std::vector<std::pair<std::uint64_t, RequestId>> grams;
  for (std::size_t i = 0; i + kind.length <= tokens.size(); ++i) {
    grams.emplace_back(hash_range(tokens, i, kind.length), static_cast<RequestId>(i));
  }
  std::sort(grams.begin(), grams.end());
  std::map<std::size_t, std::vector<Occurrences>> by_count;
  for (std::size_t first = 0, last = 0; first < grams.size(); first = last) {
    Occurrences occurrences;
    for (; last < grams.size() && grams[last].first == grams[first].first; ++last) {
      occurrences.push_back(grams[last].second);
    }
    if (occurrences.size() >= 2 && evenly_spread(occurrences, tokens.size(), interrupted)) {
      by_count[occurrences.size()].push_back(std::move(occurrences));
    }
  }
  std::vector<Occurrences> rhythms;
  for (auto& [count, strings] : by_count) {
    if (strings.size() < kind.enough) continue;
    std::sort(strings.begin(), strings.end());
    Occurrences& middle = strings[strings.size() / 2];
    if (count > 2 || two_steps_alike(tokens, middle)) rhythms.push_back(std::move(middle));
  }
  return rhythms;
}

/// Where at most the share `interrupted` of the distances is longer than the others.
std::optional<Occurrences> find_anchors(const Tokens& structure, const Tokens& sizes, double interrupted) {
  const std::vector<Occurrences> by_structure = find_rhythms(structure, kStructureStrings, interrupted);
  const std::vector<Occurrences> by_size = find_rhythms(sizes, kSizeStrings, interrupted);
  const auto alike = [](double period) {
    return [period](const Occurrences& other) {
      return std::abs(period_of(other) - period) <= kSamePeriod * period;
    };
  };
  for (const Occurrences& candidate : by_structure) {
    const auto same_period = alike(period_of(candidate));
    if (!by_size.empty() && std::none_of(by_size.begin(), by_size.end(), same_period)) continue;
    if (interrupted == 0) return candidate;
    // Where distances may be long, a string that some steps lack passes too: the commonest one lacks in none.
    return *std::find_if(by_structure.rbegin(), by_structure.rend(), same_period);
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t hash_range(const Tokens& tokens, std::size_t first, std::size_t count) {
  std::uint64_t hash = 1;
  for (std::size_t i = first; i < std::min(first + count, tokens.size()); ++i)
    hash = mix_hash(hash, tokens[i]);
  return hash;
}

double period_of(const Occurrences& occurrences) {
  return typical_distance(distances_of(occurrences));
}

std::optional<Occurrences> find_anchors(const Tokens& structure, const Tokens& sizes) {
  std::optional<Occurrences> anchors = find_anchors(structure, sizes, 0);
  return anchors ? anchors : find_anchors(structure, sizes, kInterrupted);
}

}  // namespace stweaver
