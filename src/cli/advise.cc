// stweaver advise: which configuration of a training job is worth running, and how far that can be trusted.

#include "advise/advise.h"

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/validators.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct Options {
  std::string predict;
  std::string fit;
  std::string constants;
  std::string output;
  std::vector<std::string> only;
  bool json = false;
};

Constants chosen_constants(const Options& options, const std::string& stack) {
  const Constants& base = known_constants(stack);
  if (options.constants.empty()) return base;
  return read_constants(read_text(options.constants), options.constants, base);
}

void predict(const Options& options) {
  const Measurements measured = read_measurements(read_text(options.predict), options.predict);
  const Constants constants = chosen_constants(options, measured.stack);
  std::vector<StepTime> times;
  for (const Measurement& row : measured.rows) times.push_back(step_time(row.job, constants));
  print_answer(options.json, predict_text(measured, times), predict_json(measured, times));
}

void fit(const Options& options) {
  const Measurements measured = read_measurements(read_text(options.fit), options.fit);
  if (measured.rows.empty()) fail(options.fit, ": no row that constants can be fitted on");
  const std::vector<std::string> names =
      options.only.empty() ? constants_to_fit(measured.kind) : options.only;
  const Constants fitted = fit_constants(measured.rows, names, chosen_constants(options, measured.stack));
  std::vector<StepTime> times;
  for (const Measurement& row : measured.rows) times.push_back(step_time(row.job, fitted));
  if (!options.output.empty()) write_file(options.output, write_constants(fitted));
  print_answer(options.json, fit_text(measured, times, names, fitted),
               fit_json(measured, times, names, fitted));
}

void advise(const Options& options) {
  if (!options.predict.empty()) return predict(options);
  if (!options.fit.empty()) return fit(options);
  fail("advise wants --predict FILE.csv or --fit FILE.csv; see stweaver advise --help");
}

}  // namespace

void add_advise(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("advise", "Predicts how long training steps take, and fits that on measured ones.");
  CLI::Option* predict_option = command->add_option("--predict", options->predict,
                                                    "a table of measured steps: predicted beside measured");
  CLI::Option* fit_option =
      command->add_option("--fit", options->fit, "fits the constants of the time model on a table");
  predict_option->check(file_name())->excludes(fit_option);
  fit_option->check(file_name());
  command->add_option("--constants", options->constants, "constants that --fit wrote")->check(file_name());
  command->add_option("-o,--output", options->output, "where --fit writes the constants")->check(file_name());
  command->add_option("--only", options->only, "the constants that --fit may change")->delimiter(',');
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver advise --predict measured.csv");
  command->callback([options, &status] {
    advise(*options);
    status = kDone;
  });
}

}  // namespace stweaver
