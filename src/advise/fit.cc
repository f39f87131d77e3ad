#include "advise/fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "advise/measured_layers.h"
#include "advise/time.h"
#include "base/base.h"

namespace stweaver {
namespace {

/// Beyond an error of a twentieth, which models of this kind make everywhere, rows pull less and less.
constexpr double kOutlier = 0.05;
/// The pull towards the start: a constant that is e times larger counts as much as an error of 3 % in one
/// row.
constexpr double kPull = 0.03;

const ConstantInfo& info_of(const std::string& name) {
  for (const ConstantInfo& info : constant_table())
    if (info.name == name) return info;
  fail("no constant is called ", name);
}

/// What makes two rows the same configuration, whatever release or day they were measured in.
std::string identity(const Measurement& row) {
  const Configuration& c = row.job.configuration;
  const ModelShape& m = row.job.model;
  return text(row.model, ' ', m.heads, ' ', m.ffn, ' ', m.vocabulary, ' ', m.mtp_layers, ' ',
              row.job.gpu.name, ' ', c.gpus, ' ', c.tp, ' ', c.pp, ' ', c.virtual_stages, ' ', c.cp, ' ',
              c.ep, ' ', c.zero, ' ', c.shard, ' ', c.micro_batch, ' ', c.global_batch, ' ', c.sequence, ' ',
              name_of(c.recompute), ' ', name_of(c.precision), ' ', c.overlap_tp, c.compiled);
}

/// The least squares problem: residuals at a point, the point being logarithms of constants.
class Problem {
 public:
  Problem(std::span<const Measurement> rows, const std::vector<std::string>& names, const Constants& start)
      : rows_(rows), start_(start) {
    std::map<std::string, int> copies;
    for (const Measurement& row : rows) ++copies[identity(row)];
    weights_.reserve(rows.size());
    for (const Measurement& row : rows) weights_.push_back(1 / std::sqrt(copies[identity(row)]));
    infos_.reserve(names.size());
    origin_.reserve(names.size());
    for (const std::string& name : names) {
      const ConstantInfo& info = info_of(name);
      infos_.push_back(&info);
      origin_.push_back(std::log(std::max(start.*info.member, smallest(info))));
    }
  }

  [[nodiscard]] const std::vector<double>& origin() const { return origin_; }

  [[nodiscard]] Constants at(const std::vector<double>& point) const {
    Constants constants = start_;
    for (std::size_t i = 0; i < infos_.size(); ++i)
      constants.*infos_[i]->member = std::clamp(std::exp(point[i]), infos_[i]->least, infos_[i]->most);
    return constants;
  }

  /// Rows first, then the pull of each constant.
  [[nodiscard]] std::vector<double> residuals(const std::vector<double>& point) const {
    const Constants constants = at(point);
    std::vector<double> result;
    result.reserve(rows_.size() + point.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      result.push_back(weights_[i] * std::log(step_time(rows_[i].job, constants).total / rows_[i].seconds));
    for (std::size_t i = 0; i < point.size(); ++i) result.push_back(kPull * (point[i] - origin_[i]));
    return result;
  }

 private:
  /// Where the search for a constant begins that is zero.
  static double smallest(const ConstantInfo& info) { return std::max(info.least, info.most * 1e-5); }

  std::span<const Measurement> rows_;
  Constants start_;
  std::vector<double> weights_;
  std::vector<const ConstantInfo*> infos_;
  std::vector<double> origin_;
};

double soft_cost(const std::vector<double>& residuals) {
  double sum = 0;
  for (const double r : residuals) sum += std::sqrt(1 + (r / kOutlier) * (r / kOutlier)) - 1;
  return sum;
}

/// Solves the symmetric positive definite system in place by elimination; few unknowns.
std::vector<double> solve(std::vector<std::vector<double>> matrix, std::vector<double> right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double factor = matrix[j][i] / matrix[i][i];
      for (std::size_t k = i; k < n; ++k) matrix[j][k] -= factor * matrix[i][k];
      right[j] -= factor * right[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  return right;
}

/// One step of Levenberg-Marquardt on rows reweighted for the soft loss.
std::vector<double> step_from(const Problem& problem, const std::vector<double>& point, double damping) {
  constexpr double kDifference = 1e-5;
  const std::vector<double> here = problem.residuals(point);
  const std::size_t n = point.size();
  std::vector<std::vector<double>> slopes;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> moved = point;
    moved[i] += kDifference;
    std::vector<double> there = problem.residuals(moved);
    for (std::size_t r = 0; r < here.size(); ++r) there[r] = (there[r] - here[r]) / kDifference;
    slopes.push_back(std::move(there));
  }
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n, 0));
  std::vector<double> right(n, 0);
  for (std::size_t r = 0; r < here.size(); ++r) {
    const double weight = 1 / std::sqrt(1 + (here[r] / kOutlier) * (here[r] / kOutlier));
    for (std::size_t i = 0; i < n; ++i) {
      right[i] -= weight * slopes[i][r] * here[r];
      for (std::size_t j = 0; j < n; ++j) matrix[i][j] += weight * slopes[i][r] * slopes[j][r];
    }
  }
  for (std::size_t i = 0; i < n; ++i) matrix[i][i] += damping * (matrix[i][i] + 1e-9);
  std::vector<double> step = solve(std::move(matrix), std::move(right));
  // No constant changes by more than a factor of e at once.
  for (double& part : step) part = std::clamp(part, -1.0, 1.0);
  return step;
}

/// Ranks from 0, ties share theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i + 1;
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    for (std::size_t k = i; k < j; ++k) ranks[order[k]] = static_cast<double>(i + j - 1) / 2;
    i = j;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double both = 0, only_a = 0, only_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    only_a += (a[i] - mean_a) * (a[i] - mean_a);
    only_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return only_a > 0 && only_b > 0 ? both / std::sqrt(only_a * only_b) : 1;
}

/// A configuration, however often it was measured: its first row, and geometric means.
struct Judged {
  const Measurement* row = nullptr;
  double predicted = 0;
  double measured = 0;

  /// Seconds for a token and GPU: what configurations of different batches and GPUs can be compared by.
  [[nodiscard]] double share() const {
    const Configuration& how = row->job.configuration;
    return how.gpus / tokens_of(how);
  }
};

std::vector<Judged> configurations_of(std::span<const Measurement> rows, std::span<const double> predicted) {
  std::map<std::string, std::vector<std::size_t>> copies;
  for (std::size_t i = 0; i < rows.size(); ++i) copies[identity(rows[i])].push_back(i);
  std::vector<Judged> configurations;
  configurations.reserve(copies.size());
  for (const auto& [key, members] : copies) {
    double ours = 0, theirs = 0;
    for (const std::size_t i : members) {
      ours += std::log(predicted[i]);
      theirs += std::log(rows[i].seconds);
    }
    const auto n = static_cast<double>(members.size());
    configurations.push_back({&rows[members.front()], std::exp(ours / n), std::exp(theirs / n)});
  }
  return configurations;
}

using Groups = std::map<std::string, std::vector<Judged>>;

/// Configurations by a key; groups of fewer than three say nothing and are left out.
Groups groups_of(const std::vector<Judged>& configurations,
                 const std::function<std::string(const Measurement&)>& key) {
  Groups groups;
  for (const Judged& one : configurations) groups[key(*one.row)].push_back(one);
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 3; });
  return groups;
}

/// The variance of Spearman's coefficient is 1 / (n - 1) where there is nothing to find: models count by its
/// inverse, as one of three configurations tells hardly anything.
void judge_ranks(const std::vector<Judged>& configurations, Accuracy& accuracy) {
  double weights = 0;
  for (const auto& [model, members] :
       groups_of(configurations, [](const Measurement& row) { return row.model; })) {
    std::vector<double> ours, theirs;
    for (const Judged& one : members) {
      ours.push_back(one.predicted * one.share());
      theirs.push_back(one.measured * one.share());
    }
    const auto weight = static_cast<double>(members.size() - 1);
    accuracy.rank_correlation += weight * correlation(ranks_of(ours), ranks_of(theirs));
    weights += weight;
    ++accuracy.models;
  }
  if (weights > 0) accuracy.rank_correlation /= weights;
}

void judge_choices(const std::vector<Judged>& configurations, Accuracy& accuracy) {
  const Groups choices = groups_of(configurations, [](const Measurement& row) {
    const Configuration& how = row.job.configuration;
    return text(row.model, ' ', row.job.gpu.name, ' ', how.gpus, ' ', how.global_batch, ' ', how.sequence);
  });
  for (const auto& [job, members] : choices) {
    const auto least = [&members = members](double Judged::*time) {
      return *std::min_element(members.begin(), members.end(),
                               [time](const Judged& a, const Judged& b) { return a.*time < b.*time; });
    };
    const double loss = least(&Judged::predicted).measured / least(&Judged::measured).measured - 1;
    accuracy.loss += loss / static_cast<double>(choices.size());
    accuracy.worst_loss = std::max(accuracy.worst_loss, loss);
  }
  accuracy.choices = choices.size();
}

Constants fit_numbers(std::span<const Measurement> rows, const std::vector<std::string>& names,
                      const Constants& start) {
  const Problem problem(rows, names, start);
  std::vector<double> point = problem.origin();
  double cost = soft_cost(problem.residuals(point));
  double damping = 1e-3;
  constexpr int kMostSteps = 200;
  for (int i = 0; i < kMostSteps && damping < 1e9; ++i) {
    const std::vector<double> step = step_from(problem, point, damping);
    std::vector<double> next = point;
    for (std::size_t k = 0; k < next.size(); ++k) next[k] += step[k];
    const double there = soft_cost(problem.residuals(next));
    if (!(there < cost)) {
      damping *= 10;
      continue;
    }
    const bool done = cost - there < 1e-9 * cost;
    point = std::move(next);
    cost = there;
    damping = std::max(damping / 10, 1e-9);
    if (done) break;
  }
  return problem.at(point);
}

}  // namespace

std::vector<std::string> constants_to_fit(const std::string& kind) {
  if (kind == "vtrain")
    return {"matrix", "streaming", "layer", "unfused_softmax", "head", "unaligned", "step", kLayers};
  if (kind == "bridge")
    return {"matrix",       "matrix_fp4",     "streaming",     "dispatch",       "layer",
            "moe_layer",    "moe_layer_node", "fused_experts", "tensor_exposed", "expert_exposed",
            "data_exposed", "ultra",          "step",          kLayers};
  return {"matrix",         "matrix_fp8_rowwise",     "attention",    "streaming",
          "tensor_exposed", "tensor_exposed_overlap", "data_exposed", kLayers};
}

Constants fit_constants(std::span<const Measurement> rows, const std::vector<std::string>& names,
                        const Constants& start) {
  if (rows.empty()) fail("no rows to fit constants on");
  std::vector<std::string> numbers = names;
  if (std::erase(numbers, kLayers) == 0) return fit_numbers(rows, numbers, start);
  Constants fitted = start;
  if (!numbers.empty()) {
    fitted.layers.clear();  // they say how far off other numbers were
    fitted = fit_numbers(rows, numbers, fitted);
  }
  for (const auto& [kind, factor] : measure_layers(rows, fitted)) fitted.layers[kind] = factor;
  return fitted;
}

Accuracy judge(std::span<const Measurement> rows, std::span<const double> predicted) {
  Accuracy accuracy;
  accuracy.rows = rows.size();
  if (rows.empty()) return accuracy;
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    errors.push_back(std::abs(predicted[i] / rows[i].seconds - 1));
  accuracy.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  std::sort(errors.begin(), errors.end());
  accuracy.median = errors[errors.size() / 2];

  const std::vector<Judged> configurations = configurations_of(rows, predicted);
  judge_ranks(configurations, accuracy);
  judge_choices(configurations, accuracy);
  return accuracy;
}

}  // namespace stweaver
