// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// What nvcc's code on the host calls before main(): it hands over the PTX, and the names of the kernels in it. They are
// parsed when they are first launched.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "findings.h"
#include "grid.h"
#include "machine.h"
#include "parser.h"
#include "settings.h"

namespace ptx {
namespace {

struct Module {
  std::string text;  // of the architecture that is run
};

struct Function {
  const Module* module;
  std::string name;
  std::unique_ptr<Kernel> kernel;
};

class Functions {
 public:
  static Functions& get() {
    static auto& functions = *new Functions;
    return functions;
  }

  std::mutex mutex;
  std::map<const void*, Function> all;
};

// ---- Fat binaries: a header, then images with headers of their own

template <class T>
T read_at(const unsigned char* bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof value);
  return value;
}

void take_ptx(Module& module, std::string_view image) {
  const std::string_view text = image.substr(0, image.find('\0'));
  if (text.find(".version") == std::string_view::npos) refuse("compressed PTX: nvcc needs --no-compress");
  const std::string &wanted = settings().architecture, own = architecture_of(text);
  const bool is_better = module.text.empty() || std::stoi(own) > std::stoi(architecture_of(module.text));
  if (wanted.empty() ? is_better : own == wanted) module.text = text;
}

void read_fat_binary(Module& module, const unsigned char* bytes) {
  constexpr uint16_t kPtx = 1;
  const unsigned char* image = bytes + read_at<uint16_t>(bytes, 6);
  const unsigned char* const end = image + read_at<uint64_t>(bytes, 8);
  while (image < end) {
    const auto header_bytes = read_at<uint32_t>(image, 4);
    const auto image_bytes = read_at<uint64_t>(image, 8);
    const auto* content = reinterpret_cast<const char*>(image) + header_bytes;
    if (read_at<uint16_t>(image, 0) == kPtx) take_ptx(module, {content, image_bytes});
    image += header_bytes + image_bytes;
  }
}

// ---- Counts

// One line a kernel: threads, and in how many lanes each opcode has run. Of accesses: requests, sectors and bytes; sectors,
// each once in a block; and each once in a launch.
void print_counts(std::FILE* file, const Kernel& kernel) {
  uint64_t warps = 0, lanes = 0;
  std::map<std::string, uint64_t> opcodes;
  for (const Instruction& instruction : kernel.code) {
    warps += instruction.runs;
    lanes += instruction.lanes;
    std::string_view text = instruction.text;
    if (text[0] == '@') text = text.substr(text.find(' ') + 1);
    opcodes[std::string(text.substr(0, text.find_first_of(" \t")))] += instruction.lanes;
  }
  std::fprintf(file, "%s\tlaunches=%lu threads=%lu warps=%lu lanes=%lu", demangled(kernel.name).c_str(),
               kernel.launches, kernel.threads, warps, lanes);
  kernel.loads.print(file, "loads");
  kernel.stores.print(file, "stores");
  kernel.atomics.print(file, "atomics");
  std::fputc('\t', file);
  for (const auto& [opcode, count] : opcodes) std::fprintf(file, " %s=%lu", opcode.c_str(), count);
  std::fputc('\n', file);
}

// Since the last time.
void write_counts() {
  std::FILE* file = settings().counts.empty() ? nullptr : std::fopen(settings().counts.c_str(), "a");
  if (file == nullptr) return;
  for (const auto& [host, function] : Functions::get().all) {
    if (function.kernel == nullptr || function.kernel->launches == 0) continue;
    const Kernel& kernel = *function.kernel;
    print_counts(file, kernel);
    for (const Instruction& instruction : kernel.code) instruction.runs = instruction.lanes = 0;
    kernel.launches = kernel.threads = 0;
    kernel.loads = kernel.stores = kernel.atomics = {};
  }
  const uint64_t filled = std::exchange(Memory::get().filled_bytes, 0);
  if (filled > 0) std::fprintf(file, "cudaMemsetAsync\tbytes=%lu\n", filled);
  std::fclose(file);
}

struct CountsAtExit {
  ~CountsAtExit() { write_counts(); }
};
CountsAtExit counts_at_exit;

}  // namespace

const Kernel* find_kernel(const void* host_function) {
  Functions& functions = Functions::get();
  const std::lock_guard lock(functions.mutex);
  const auto found = functions.all.find(host_function);
  if (found == functions.all.end()) return nullptr;
  Function& function = found->second;
  if (function.kernel == nullptr) function.kernel = parse_kernel(function.module->text, function.name);
  return function.kernel.get();
}

}  // namespace ptx

using ptx::Functions;
using ptx::Module;

extern "C" {

void ptxWriteCounts() {
  ptx::write_counts();
}

void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic, version;
    const unsigned char* bytes;
    void* file;
  };
  auto* module = new Module;
  ptx::read_fat_binary(*module, static_cast<const Wrapper*>(wrapper)->bytes);
  return reinterpret_cast<void**>(module);
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** module, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Functions& functions = Functions::get();
  const std::lock_guard lock(functions.mutex);
  functions.all[host_function] = {reinterpret_cast<const Module*>(module), name, nullptr};
}

}  // extern "C"
