// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "findings.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "fault.h"
#include "grid.h"

namespace ptx {
namespace {

std::mutex mutex;
std::vector<std::string>* collected = nullptr;  // null: a finding ends the program

}  // namespace

void report(const std::string& what) {
  if (planted_fault_is_found()) return;
  const std::string finding = what + Grid::where();
  const std::lock_guard lock(mutex);
  if (collected != nullptr) {
    collected->push_back(finding);
    return;
  }
  std::fprintf(stderr, "PTX machine: %s\n", finding.c_str());
  std::abort();
}

CollectedFindings::CollectedFindings() {
  const std::lock_guard lock(mutex);
  collected = new std::vector<std::string>;
}

CollectedFindings::~CollectedFindings() {
  const std::lock_guard lock(mutex);
  delete std::exchange(collected, nullptr);
}

std::vector<std::string> CollectedFindings::take() {
  const std::lock_guard lock(mutex);
  return std::exchange(*collected, {});
}

void refuse(const std::string& what) {
  std::fprintf(stderr, "PTX machine: cannot run %s\n", what.c_str());
  std::abort();
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace ptx
