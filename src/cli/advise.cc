// stweaver advise: which configuration of a training job is worth running, and how far that can be trusted.

#include "advise/advise.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "report/report.h"

namespace stweaver {
namespace {

constexpr int kMostGpus = 1 << 20;

struct AdviseCommandOptions {
  std::string model;
  std::string gpu;
  int gpus = 0;
  int nodes = 0;
  std::string link = "nvlink";
  std::optional<double> network;
  std::string allocator = "stweaver";
  std::vector<std::string> software;
  std::vector<std::string> recorded;
  int sequence = 0;
  int global_batch = 0;
  std::string precision = "bf16";
  std::string modules;
  std::optional<double> max_memory;
  std::vector<std::string> fixed;
  std::vector<std::string> objectives;
  std::optional<double> price;
  bool exhaustive = false;
  std::int64_t evaluations = FrontOptions().evaluations;
  std::uint64_t seed = 1;
  std::size_t choices = 12;
  std::string predict;
  std::string fit;
  std::string constants;
  std::string output;
  std::vector<std::string> only;
  bool json = false;
};

/// The file that MODEL is, or the `config.json` of the folder that it is; empty for a public model.
std::string model_file(const std::string& name) {
  const auto is_file = [](const std::string& path) {
    std::error_code none;
    return std::filesystem::is_regular_file(path, none);
  };
  std::string inside = name + "/config.json";
  if (is_file(inside)) return inside;
  return name.ends_with(".json") || is_file(name) ? name : "";
}

std::vector<std::string> inputs_of(const AdviseCommandOptions& options) {
  std::vector<std::string> inputs = {options.predict, options.fit, options.constants,
                                     model_file(options.model)};
  for (const std::string& given : options.recorded) inputs.push_back(given.substr(0, given.rfind(':')));
  return inputs;
}

Constants chosen_constants(const AdviseCommandOptions& options, const std::string& stack) {
  const Constants& base = known_constants(stack);
  if (options.constants.empty()) return base;
  return read_constants(read_text(options.constants), options.constants, base);
}

/// Kinds of layers that others have measured count for predictions of such jobs, and not where configurations
/// are compared: those whose kind nobody has measured would seem faster or slower than they are.
Constants constants_to_compare(const AdviseCommandOptions& options, Modules modules) {
  Constants constants = chosen_constants(options, modules == Modules::kPyTorch ? "torchtitan" : "megatron");
  if (options.constants.empty()) constants.layers.clear();
  return constants;
}

std::vector<StepTime> times_of(const Measurements& measured, const Constants& constants) {
  std::vector<StepTime> times;
  times.reserve(measured.rows.size());
  for (const Measurement& row : measured.rows) times.push_back(step_time(row.job, constants));
  return times;
}

std::string why_none_is_left(const Measurements& measured) {
  return measured.left_out.empty() ? "there is none" : measured.left_out.front();
}

Answer predict(const AdviseCommandOptions& options) {
  const Measurements measured = read_measurements(read_text(options.predict), options.predict);
  if (measured.rows.empty()) fail(options.predict, ": no row can be predicted; ", why_none_is_left(measured));
  const std::vector<StepTime> times = times_of(measured, chosen_constants(options, measured.stack));
  return {predict_text(measured, times), predict_json(measured, times)};
}

Answer fit(const AdviseCommandOptions& options) {
  const Measurements measured = read_measurements(read_text(options.fit), options.fit);
  if (measured.rows.empty())
    fail(options.fit, ": no row that constants can be fitted on; ", why_none_is_left(measured));
  if (measured.kind == "memory") fail(options.fit, ": a table of peaks has no times to fit constants on");
  const std::vector<std::string> names =
      options.only.empty() ? constants_to_fit(measured.kind) : options.only;
  const Constants fitted = fit_constants(measured.rows, names, chosen_constants(options, measured.stack));
  const std::vector<StepTime> times = times_of(measured, fitted);
  if (!options.output.empty()) write_file(options.output, write_constants(fitted));
  return {fit_text(measured, times, names, fitted), fit_json(measured, times, names, fitted)};
}

ModelShape model_named(const std::string& name) {
  const std::string path = model_file(name);
  return path.empty() ? known_model(name) : read_model(read_text(path), path);
}

/// The GPU with what joins it to others, as far as that is said.
Gpu gpu_of(const AdviseCommandOptions& options) {
  Gpu gpu = known_gpu(options.gpu);
  gpu.link = link_named(options.link, gpu);
  if (options.network) gpu.network = *options.network * 1e9;
  if (options.nodes > 0 && options.gpus > 0) {
    if (options.gpus % options.nodes != 0)
      fail("--gpus ", options.gpus, " in --nodes ", options.nodes, ": nodes must be alike");
    gpu.domain = options.gpus / options.nodes;
  }
  return gpu;
}

/// "NAME=VALUE" as given to `option`.
std::pair<std::string, std::string> setting_of(const std::string& option, const std::string& given) {
  const std::size_t equals = given.find('=');
  if (equals == std::string::npos) fail(option, " ", given, ": not of the form tp=8");
  return {given.substr(0, equals), given.substr(equals + 1)};
}

/// What is not said is what the software is made of that runs the job: Megatron-LM where that is among it.
Modules modules_of(const AdviseCommandOptions& options) {
  if (!options.modules.empty()) return modules_named(options.modules);
  const std::vector<std::string>& software = options.software;
  const bool is_megatron = software.empty() || std::ranges::find(software, "megatron") != software.end();
  return is_megatron ? Modules::kMegatron : Modules::kPyTorch;
}

Space space_of(const AdviseCommandOptions& options) {
  if ((options.gpus < 1 && options.nodes < 1) || options.gpu.empty())
    fail("advise ", options.model, " wants --gpus N and --gpu NAME; see stweaver advise --help");
  Space space;
  space.model = model_named(options.model);
  space.gpu = gpu_of(options);
  space.gpus = options.gpus > 0 ? options.gpus : options.nodes * space.gpu.domain;
  if (space.gpus > kMostGpus) fail("--nodes ", options.nodes, ": more than ", kMostGpus, " GPUs");
  space.sequence = options.sequence > 0 ? options.sequence : std::min(space.model.sequence, 8192);
  space.global_batch =
      options.global_batch > 0 ? options.global_batch : usual_batch(space.gpus, space.sequence);
  space.precision = precision_named(options.precision);
  space.modules = modules_of(options);
  for (const std::string& fix : options.fixed) {
    const auto [name, value] = setting_of("--fix", fix);
    if (!space.fixed.emplace(name, value).second) fail("--fix ", fix, ": ", name, " is given twice");
  }
  return space;
}

FrontOptions front_options(const AdviseCommandOptions& options, const Gpu& gpu) {
  FrontOptions front;
  front.memory =
      options.max_memory ? *options.max_memory * static_cast<double>(kGiB) : static_cast<double>(gpu.memory);
  if (!options.objectives.empty()) front.objectives.clear();
  for (const std::string& name : options.objectives) front.objectives.push_back(objective_named(name));
  if (options.exhaustive) front.exhaustive = true;
  front.evaluations = options.evaluations;
  front.seed = options.seed;
  return front;
}

/// "TRACE:gpus=32,pp=4,stage=0": a recorded rank and what it was of.
RecordedRank recorded_rank_of(const std::string& given, const Space& space) {
  const std::size_t colon = given.rfind(':');
  if (colon == std::string::npos || given.find('=', colon) == std::string::npos)
    fail("--calibrate ", given, ": not of the form TRACE:gpus=32,pp=4,mbs=1,stage=0");
  std::map<std::string, std::string> values;
  for (const std::string& setting : CLI::detail::split(given.substr(colon + 1), ','))
    if (!values.insert(setting_of("--calibrate", setting)).second)
      fail("--calibrate ", given, ": ", setting, " is given twice");
  const auto stage = values.extract("stage");
  const Trace trace = open_trace(given.substr(0, colon));
  try {
    const Job job = job_named(space, values);
    const int number = stage ? value_named("stage", stage.mapped()) : 0;
    if (number >= job.configuration.pp) fail("stage=", number, ": there are ", job.configuration.pp);
    return recorded_rank(trace, job, number);
  } catch (const Error& error) {
    fail("--calibrate ", given, ": ", error.what());
  }
}

std::vector<RecordedRank> recorded_ranks(const AdviseCommandOptions& options, const Space& space) {
  std::vector<RecordedRank> ranks;
  ranks.reserve(options.recorded.size());
  for (const std::string& given : options.recorded) ranks.push_back(recorded_rank_of(given, space));
  return ranks;
}

/// Those that are named; all where none is. A training loop of one's own has nobody's settings.
std::vector<Framework> frameworks_of(const AdviseCommandOptions& options, const Space& space) {
  if (options.software.empty() && space.modules == Modules::kPyTorch) return {};
  if (options.software.empty()) return {known_frameworks().begin(), known_frameworks().end()};
  std::vector<Framework> frameworks;
  frameworks.reserve(options.software.size());
  for (const std::string& key : options.software) frameworks.push_back(framework_named(key));
  return frameworks;
}

/// The choice with what it reserves, if that is within the memory: what lives may fit where its plan does
/// not.
std::optional<PlannedChoice> fitting(const Recommendation& advice, const Choice& choice,
                                     AllocatorChoice allocator) {
  const Reservation reservation =
      reserve(job_of(advice, choice.configuration), choice.stage, static_cast<Bytes>(advice.memory));
  if (static_cast<double>(reserved_by(allocator, reservation)) > advice.memory) return std::nullopt;
  return PlannedChoice{choice, reservation};
}

/// The clear choices of a front that fit once they are planned. Where none does, the choice is among those
/// that need less. No more than one once it is to stop.
std::vector<PlannedChoice> planned_choices(const Recommendation& advice, std::size_t count,
                                           AllocatorChoice allocator, const std::stop_token& stop) {
  std::vector<PlannedChoice> choices;
  Front front = advice.front;
  for (std::size_t before = 0; choices.empty() && front.choices.size() != before;) {
    double too_much = std::numeric_limits<double>::infinity();
    for (const Choice& choice : clear_choices(front, advice.objectives, count)) {
      if (stop.stop_requested() && !choices.empty()) return choices;
      if (std::optional<PlannedChoice> planned = fitting(advice, choice, allocator)) {
        choices.push_back(*std::move(planned));
      } else {
        too_much = std::min(too_much, choice.memory);
      }
    }
    before = front.choices.size();
    std::erase_if(front.choices, [too_much](const Choice& choice) { return choice.memory >= too_much; });
  }
  return choices;
}

/// What choices may need at most for what they reserve to fit, by the one of the front that needs least.
double limit_of_plans(const Recommendation& advice, AllocatorChoice allocator) {
  const Choice& least = *std::ranges::min_element(advice.front.choices, {}, &Choice::memory);
  const Reservation reservation =
      reserve(job_of(advice, least.configuration), least.stage, static_cast<Bytes>(advice.memory));
  return advice.memory * least.memory / static_cast<double>(reserved_by(allocator, reservation));
}

/// Looks again for configurations that need less, while none of those that were found fits once it is
/// planned: a front by time alone is one configuration.
void find_choices(Recommendation& advice, const Space& space, const Constants& constants, FrontOptions how,
                  AllocatorChoice allocator, std::size_t count) {
  for (;;) {
    advice.front = search_front(space, constants, how);
    advice.choices = planned_choices(advice, count, allocator, how.stop);
    if (!advice.choices.empty() || advice.front.choices.empty() || how.stop.stop_requested()) return;
    how.memory = limit_of_plans(advice, allocator);
  }
}

/// The fastest of a front that fits once it is planned, if it is faster than `seconds`.
std::optional<PlannedChoice> fastest_of_front(const Recommendation& advice, AllocatorChoice allocator,
                                              double seconds, const std::stop_token& stop) {
  for (const Choice& choice : advice.front.choices) {
    if (choice.seconds >= seconds || stop.stop_requested()) break;
    if (std::optional<PlannedChoice> planned = fitting(advice, choice, allocator)) return planned;
  }
  return std::nullopt;
}

/// The same of all configurations: a front is of what lives, and of two configurations the one with more of
/// that may reserve less.
std::optional<PlannedChoice> fastest_of_all(const Recommendation& advice, const Space& space,
                                            const Constants& constants, const FrontOptions& how,
                                            AllocatorChoice allocator, double seconds) {
  std::optional<PlannedChoice> planned;
  (void)fastest(space, constants, how, [&](const Choice& choice) {
    if (choice.seconds < seconds) planned = fitting(advice, choice, allocator);
    return planned.has_value() || choice.seconds >= seconds;
  });
  return planned;
}

/// What is clear of a front need not fit: the fastest that does comes first all the same.
void put_fastest_first(Recommendation& advice, const Space& space, const Constants& constants,
                       const FrontOptions& how, AllocatorChoice allocator,
                       const AdviseCommandOptions& options) {
  std::vector<PlannedChoice>& choices = advice.choices;
  const double seconds =
      choices.empty() ? std::numeric_limits<double>::infinity() : choices.front().choice.seconds;
  std::optional<PlannedChoice> first = options.exhaustive
                                           ? fastest_of_all(advice, space, constants, how, allocator, seconds)
                                           : fastest_of_front(advice, allocator, seconds, how.stop);
  if (!first) return;
  if (choices.size() >= options.choices) choices.erase(choices.begin());
  choices.insert(choices.begin(), *std::move(first));
}

Answer recommend(const AdviseCommandOptions& options) {
  Space space = space_of(options);
  const AllocatorChoice allocator = allocator_named(options.allocator);
  std::vector<Framework> frameworks = frameworks_of(options, space);
  if (!options.software.empty())
    space.runs = [frameworks](const Job& job) {
      return std::ranges::any_of(frameworks, [&](const Framework& one) { return one.runs(job); });
    };
  const std::vector<RecordedRank> recorded = recorded_ranks(options, space);
  space.calibration = calibrate(recorded);
  Progress progress("looking for configurations of " + options.model, options.json);
  const Interrupt interrupt;
  const auto start = std::chrono::steady_clock::now();
  FrontOptions how = front_options(options, space.gpu);
  how.stop = interrupt.token();
  how.progress = [&progress](std::int64_t seen) { progress.note(text(", ", seen, " of them seen")); };
  const Constants constants = constants_to_compare(options, space.modules);
  Recommendation advice{.model = space.model,
                        .gpu = space.gpu,
                        .choices = {},
                        .front = {},
                        .objectives = how.objectives,
                        .memory = how.memory,
                        .price = options.price,
                        .frameworks = std::move(frameworks),
                        .calibration = space.calibration,
                        .ranks = calibrated_ranks(recorded)};
  find_choices(advice, space, constants, how, allocator, options.choices);
  put_fastest_first(advice, space, constants, how, allocator, options);
  advice.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Answer answer = {advise_text(advice), advise_json(advice), advice.choices.empty() ? kAnswerIsNo : kDone};
  if (!options.output.empty()) {
    write_file(options.output, front_page_html(advice));
    answer.text += printable(options.output) + ": open it in a browser\n";
    answer.document["file"] = options.output;
  }
  return answer;
}

Answer advise(const AdviseCommandOptions& options) {
  const int asked = static_cast<int>(!options.predict.empty()) + static_cast<int>(!options.fit.empty()) +
                    static_cast<int>(!options.model.empty());
  if (asked != 1)
    fail("advise wants one of MODEL, --predict FILE.csv, --fit FILE.csv; see stweaver advise --help");
  keep_apart(inputs_of(options), {options.output});
  if (!options.predict.empty()) return predict(options);
  return options.fit.empty() ? recommend(options) : fit(options);
}

/// What is asked for: the model, the cluster, and what the job is made of.
void add_job_options(CLI::App* command, AdviseCommandOptions& options) {
  command
      ->add_option("MODEL", options.model, "config.json of a transformers model, or the name of a public one")
      ->check(file_name());
  command->add_option("--gpus", options.gpus, "GPUs at most")->check(CLI::Range(1, kMostGpus));
  command->add_option("--gpu", options.gpu,
                      "kind of GPU: A100, A800, H100, H800, H200, B200, B300, GB200, GB300");
  command->add_option("--nodes", options.nodes, "that they are in (default: nodes as the maker builds them)")
      ->check(CLI::Range(1, kMostGpus));
  command->add_option("--link", options.link, "inside a node: nvlink (default), pcie3, pcie4, pcie5");
  command->add_option("--network", options.network, "between nodes, GB/s of each GPU (default: the usual)")
      ->check(number(0.01, 1e5));
  command->add_option("--sequence", options.sequence, "tokens (default: the model's, 8192 at most)")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--global-batch", options.global_batch, "sequences of a step (default: about 4 Mi tokens)")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--precision", options.precision, "bf16 (default), fp8, fp8-rowwise, mxfp8, nvfp4");
  command->add_option("--modules", options.modules,
                      "what layers are made of: megatron (TransformerEngine), pytorch (not compiled); "
                      "default: the software's");
  command->add_option("--max-memory", options.max_memory, "GiB that a rank may reserve (default: the GPU's)")
      ->check(number(0.1, 4096));
  command->add_option("--allocator", options.allocator,
                      "whose peak has to fit: stweaver (default), expandable, default");
  command
      ->add_option("--calibrate", options.recorded,
                   "recorded ranks and what they were of: TRACE:gpus=32,pp=4,mbs=1,stage=0 ...")
      ->check(file_name());
}

/// What of it may be chosen, by what, and how it is searched.
void add_search_options(CLI::App* command, AdviseCommandOptions& options) {
  command
      ->add_option("--software", options.software,
                   "what runs the job: megatron, torchtitan, deepspeed (default: prints settings of all)")
      ->option_text("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--fix", options.fixed, "a parameter that is given: tp=8, recompute=full; may come again")
      ->option_text("NAME=VALUE")
      ->allow_extra_args(false);  // what follows its value may be MODEL
  command
      ->add_option("--objective", options.objectives,
                   "what the front is of: time, memory, gpus (these by default), cost, headroom")
      ->option_text("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--price", options.price, "of a GPU hour, in any money: shows costs in it")
      ->check(number(0, 1e6));
  command->add_flag("--exhaustive", options.exhaustive, "look at every configuration, however many");
  command->add_option("--evaluations", options.evaluations, "configurations that a search looks at")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--seed", options.seed, "of the search");
  command->add_option("--choices", options.choices, "choices to show at most")->check(CLI::Range(1, 1000));
}

/// Tables of measured steps, which say themselves what they are of, and constants.
void add_table_options(CLI::App* command, AdviseCommandOptions& options) {
  CLI::Option* predict_option = command->add_option("--predict", options.predict,
                                                    "a table of measured steps: predicted beside measured");
  CLI::Option* fit_option =
      command->add_option("--fit", options.fit, "fits the constants of the time model on a table");
  predict_option->check(file_name())->excludes(fit_option);
  fit_option->check(file_name());
  command->add_option("--constants", options.constants, "constants that --fit wrote")->check(file_name());
  command
      ->add_option("-o,--output", options.output,
                   "an HTML page of the front to write besides; with --fit, where the constants go")
      ->check(file_name())
      ->excludes(predict_option);
  command
      ->add_option("--only", options.only, "the constants that --fit may change; layers for kinds of layers")
      ->option_text("A,B")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(fit_option);
}

/// Error for one of these options beside a table, which says itself what it is of.
void refuse_beside_tables(const std::vector<CLI::Option*>& of_advice, const AdviseCommandOptions& options) {
  if (options.predict.empty() && options.fit.empty()) return;
  for (const CLI::Option* const option : of_advice)
    if (option->count() > 0)
      fail(option->get_name(), ": says nothing of the rows of a table; leave it out, or --predict and --fit");
}

}  // namespace

void add_advise(CLI::App& app, int& status) {
  const auto options = std::make_shared<AdviseCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "advise",
      "Which configuration: the front over time, memory, GPUs and cost; predictions to test it by.");
  add_job_options(command, *options);
  add_search_options(command, *options);
  const std::vector<CLI::Option*> of_advice = command->get_options();
  add_table_options(command, *options);
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver advise llama3_70b --gpus 64 --gpu h200 --fix tp=8");
  command->callback([options, of_advice, &status] {
    refuse_beside_tables(of_advice, *options);
    status = print_answer(options->json, advise(*options));
  });
}

}  // namespace stweaver
