// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Looks operators up as dynamic loaders do: in custom packages first, then in what is installed.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "aclnnop/aclnn_grouped_bias_add_grad.h"

namespace fs = std::filesystem;

static std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

static std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Every library that may hold an operator, in the order in which they are asked.
static std::vector<fs::path> libraries_to_ask() {
  const fs::path in_package = fs::path("op_api") / "lib" / "libcust_opapi.so";
  std::vector<fs::path> libraries;
  for (const std::string& package : split(variable("ASCEND_CUSTOM_OPP_PATH"), ':'))
    libraries.push_back(package / in_package);

  const fs::path vendors = fs::path(variable("ASCEND_OPP_PATH")) / "vendors";
  const std::string key = "load_priority=";
  std::ifstream config(vendors / "config.ini");
  for (std::string line; std::getline(config, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    for (const std::string& vendor : split(line.substr(key.size()), ','))
      libraries.push_back(vendors / vendor / in_package);
  }

  const fs::path installed = fs::path(variable("ASCEND_HOME_PATH")) / "lib64";
  if (fs::is_directory(installed)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(installed)) {
      if (entry.is_regular_file() && entry.path().filename().string().compare(0, 9, "libopapi_") == 0)
        libraries.push_back(entry.path());
    }
    libraries.push_back(installed / "libopapi.so");
  }
  return libraries;
}

int main() {
  const std::vector<std::string> names = split(
      "aclnnGroupedBiasAddGradGetWorkspaceSize aclnnGroupedBiasAddGrad aclCreateTensor aclDestroyTensor "
      "aclCreateScalar aclDestroyScalar aclCreateIntArray aclDestroyIntArray aclCreateFloatArray "
      "aclDestroyFloatArray aclCreateBoolArray aclDestroyBoolArray aclCreateTensorList aclDestroyTensorList "
      "aclCreateScalarList aclDestroyScalarList aclGetViewShape",
      ' ');

  // Whichever of its names a library is opened by, it is the same library.
  std::vector<void*> addresses;
  int opened = 0;
  for (const fs::path& path : libraries_to_ask()) {
    void* library = dlopen(path.c_str(), RTLD_LAZY);
    if (library == nullptr) {
      std::printf("%s\n", dlerror());
      continue;
    }
    ++opened;
    std::vector<void*> found;
    for (const std::string& name : names) {
      found.push_back(dlsym(library, name.c_str()));
      if (found.back() == nullptr) {
        std::fprintf(stderr, "%s has no %s\n", path.c_str(), name.c_str());
        return 1;
      }
    }
    if (!addresses.empty() && found != addresses) {
      std::fprintf(stderr, "%s is another copy\n", path.c_str());
      return 1;
    }
    addresses = found;
  }
  std::printf("%d libraries opened\n", opened);
  if (opened == 0) return 1;

  const auto phase1 = reinterpret_cast<decltype(&aclnnGroupedBiasAddGradGetWorkspaceSize)>(addresses[0]);
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  return phase1(nullptr, nullptr, nullptr, &workspace_size, &executor) == 161001 ? 0 : 1;
}
