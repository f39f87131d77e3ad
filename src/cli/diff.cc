// stweaver diff: what changed between two runs.

#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "report/report.h"

namespace stweaver {
namespace {

constexpr int kTop = 20;  // a screen of text

struct DiffCommandOptions {
  std::string a;
  std::string b;
  std::string output;
  int top = kTop;
  bool json = false;
};

Answer diff(const DiffCommandOptions& options) {
  keep_apart({options.a, options.b}, {options.output});
  const Progress progress("comparing " + options.a + " with " + options.b, options.json);
  const Trace a = open_trace(options.a);
  const Trace b = open_trace(options.b);
  const Difference difference = difference_of(a, b);
  Answer answer = {diff_text(difference, static_cast<std::size_t>(options.top)), diff_json(difference)};
  if (!options.output.empty()) {
    write_file(options.output, diff_page_html(a, b, difference));
    answer.text += printable(options.output) + ": open it in a browser\n";
    answer.document["file"] = options.output;
  }
  return answer;
}

}  // namespace

void add_diff(CLI::App& app, int& status) {
  const auto options = std::make_shared<DiffCommandOptions>();
  CLI::App* command =
      app.add_subcommand("diff", "What grew, what is new and what is gone at the peak, between two runs.");
  command->add_option("A", options->a, "PyTorch memory snapshot or trace file: the run before")
      ->required()
      ->check(file_name());
  command->add_option("B", options->b, "the run now")->required()->check(file_name());
  command->add_option("-o,--output", options->output, "an HTML file to write besides; it needs no network")
      ->check(file_name());
  command->add_option("--top", options->top, "how many changes the text shows")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--json", options->json, "print one JSON document, with all changes");
  command->footer("Example: stweaver diff yesterday.pickle today.pickle -o diff.html");
  command->callback([options, &status] { status = print_answer(options->json, diff(*options)); });
}

}  // namespace stweaver
