// stweaver doctor: what this machine has, what would work here, and how to mend what would not.

#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
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

/// What the Python on the path says of a package, without importing it.
Finding find_torch() {
  Finding finding{"torch", false, "", "install PyTorch 2.1 or later where you want to record a job"};
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(
      popen("python3 -c 'import importlib.metadata as m; print(m.version(\"torch\"))' 2>/dev/null", "r"),
      pclose);
  std::array<char, 64> line{};
  if (answer && std::fgets(line.data(), line.size(), answer.get()) != nullptr) {
    std::string version(line.data());
    version.erase(version.find_last_not_of(" \n") + 1);
    return {"torch", true, "PyTorch " + version, ""};
  }
  finding.detail = "python3 finds no PyTorch";
  return finding;
}

void doctor(bool json) {
  const std::vector<Finding> findings = {find_machine(), find_gpu(), find_torch()};
  Table table({"part", "", "what was found"}, "lll");
  nlohmann::ordered_json document = {{"version", STWEAVER_VERSION},
                                     {"findings", nlohmann::ordered_json::array()}};
  std::string remedies;
  for (const Finding& finding : findings) {
    table.add_row({finding.what, finding.works ? "works" : "missing", finding.detail});
    document["findings"].push_back({{"part", finding.what},
                                    {"works", finding.works},
                                    {"detail", finding.detail},
                                    {"remedy", finding.remedy}});
    if (!finding.works) remedies += finding.what + ": " + finding.remedy + "\n";
  }
  print_answer(json, table.text() + (remedies.empty() ? "" : "\n" + remedies), document);
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine has, what would work, and how to mend what would not.");
  command->add_flag("--json", *json, "print one JSON document");
  command->footer("Example: stweaver doctor");
  command->callback([json, &status] {
    doctor(*json);
    status = kDone;
  });
}

}  // namespace stweaver
