// stweaver doctor: what this machine has, what would work here, and how to mend what would not.

#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/python.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct Finding {
  std::string what;
  bool works = false;
  std::string detail;
  std::string remedy;  ///< empty when it works
};

Finding find_machine() {
  utsname system{};
  uname(&system);
  const auto memory = static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return {"planning", true,
          text(system.sysname, " ", system.machine, ", ", std::thread::hardware_concurrency(), " cores, ",
               memory / kGiB, " GiB of memory"),
          ""};
}

/// The NVIDIA driver, asked through its own library: none is needed to build or to plan.
Finding find_gpu() {
  Finding finding{"gpu", false, "",
                  "install the NVIDIA driver, or plan here and train elsewhere: plans need no GPU"};
  const std::unique_ptr<void, int (*)(void*)> driver(dlopen("libcuda.so.1", RTLD_LAZY), dlclose);
  if (!driver) {
    finding.detail = "no NVIDIA driver (libcuda.so.1) on this machine";
    return finding;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver.get(), "cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(driver.get(), "cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver.get(), "cuDeviceGetCount"));
  int devices = 0;
  int number = 0;
  if (init == nullptr || version == nullptr || count == nullptr || init(0) != 0 || version(&number) != 0 ||
      count(&devices) != 0 || devices == 0) {
    finding.detail = "there is an NVIDIA driver, but it shows no device";
    return finding;
  }
  constexpr int kThousand = 1000;  // the driver counts 13.0 as 13000
  return {"gpu", true, text(devices, " device(s), CUDA ", number / kThousand, ".", number % kThousand / 10),
          ""};
}

/// All that the shell command prints.
std::string output_of(const std::string& command) {
  std::string output;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) output += part.data();
  return output;
}

/// What the Python package knows: `findings` and `variables` (python/stweaver/doctor.py). Null without it.
nlohmann::ordered_json ask_package() {
  const std::string answer = output_of(text(kPythonInShell, " -m stweaver facts 2>/dev/null </dev/null"));
  nlohmann::ordered_json facts = nlohmann::ordered_json::parse(answer, nullptr, false);
  return facts.is_object() ? facts : nlohmann::ordered_json();
}

/// Without the package: whether the Python on the path has PyTorch, without importing it.
Finding find_torch() {
  std::string version =
      output_of(text(kPythonInShell, R"( -c 'import importlib.metadata as m; print(m.version("torch"))')",
                     " 2>/dev/null </dev/null"));
  version.erase(version.find_last_not_of(" \n") + 1);
  if (!version.empty()) return {"torch", true, "PyTorch " + version, ""};
  return {"torch", false, python_name() + " finds no PyTorch",
          "install PyTorch 2.1 or later where you want to record a job"};
}

Finding miss_package() {
  return {"python package", false, python_name() + " finds no package stweaver",
          "pip install . where you want to train, or let STWEAVER_PYTHON name the Python that has it"};
}

nlohmann::ordered_json json_of(const Finding& finding) {
  return {{"part", finding.what},
          {"works", finding.works},
          {"detail", finding.detail},
          {"remedy", finding.remedy}};
}

nlohmann::ordered_json examine() {
  nlohmann::ordered_json document = {{"version", STWEAVER_VERSION},
                                     {"findings", {json_of(find_machine()), json_of(find_gpu())}}};
  const nlohmann::ordered_json facts = ask_package();
  if (facts.is_null()) {
    document["findings"].push_back(json_of(miss_package()));
    document["findings"].push_back(json_of(find_torch()));
    return document;
  }
  for (const auto& finding : facts.at("findings")) document["findings"].push_back(finding);
  document["variables"] = facts.at("variables");
  document["unknown_variables"] = facts.at("unknown_variables");
  return document;
}

std::string word(const nlohmann::ordered_json& json) {
  return json.is_string() ? json.get<std::string>() : "-";
}

std::string text_of(const nlohmann::ordered_json& document) {
  Table parts({"part", "", "what was found"}, "lll");
  std::string remedies;
  for (const auto& finding : document.at("findings")) {
    const bool works = finding.at("works");
    const std::string part = word(finding.at("part"));
    parts.add_row({part, works ? "works" : "missing", word(finding.at("detail"))});
    if (!works) remedies += part + ": " + word(finding.at("remedy")) + "\n";
  }
  if (!remedies.empty()) remedies = "\n" + remedies;
  if (!document.contains("variables")) return parts.text() + remedies;

  Table variables({"variable", "value", "meaning"}, "lll");
  for (const auto& variable : document.at("variables"))
    variables.add_row({word(variable.at("name")), word(variable.at("value")), word(variable.at("meaning"))});
  std::string unknown;
  for (const auto& name : document.at("unknown_variables"))
    unknown += word(name) + " has no meaning: is it misspelt?\n";
  return parts.text() + remedies + "\n" + variables.text() + unknown;
}

Answer doctor() {
  try {
    const nlohmann::ordered_json document = examine();
    return {text_of(document), document};
  } catch (const nlohmann::json::exception&) {
    fail("the Python package stweaver is of another version than this command, ", STWEAVER_VERSION,
         ": install both from one wheel or one checkout");
  }
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine has, what would work, and how to mend what would not.");
  command->add_flag("--json", *json, "print one JSON document");
  command->footer("Example: stweaver doctor");
  command->callback([json, &status] { status = print_answer(*json, doctor()); });
}

}  // namespace stweaver
