// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

// The C library's own. They are named rather than looked up, as looking up allocates.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);
void* __libc_memalign(size_t, size_t);
}

namespace faults {
namespace {

struct Counter {
  std::atomic<bool> armed{false};
  std::atomic<int64_t> requested{0};
  std::atomic<int64_t> refused{0};
  int64_t first = 0;
  int64_t last = 0;
};

Counter counters[2];
std::atomic<int64_t> live{0};

Counter& counter_of(Resource resource) {
  return counters[static_cast<size_t>(resource)];
}

// oneTBB does not survive it where its own requests fail.
struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

Range tbb;

int find_tbb(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "/libtbb.so") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library->dlpi_phdr[i];
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) tbb = {begin, begin + segment.p_memsz};
  }
  return 1;
}

thread_local bool works_for_tbb = false;

bool is_by_tbb(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return works_for_tbb || (address >= tbb.begin && address < tbb.end);
}

bool refuses(Resource resource, const void* caller) {
  Counter& counter = counter_of(resource);
  if (!counter.armed.load(std::memory_order_acquire)) return false;
  if (is_by_tbb(caller)) return false;
  const int64_t number = ++counter.requested;
  if (number < counter.first || number > counter.last) return false;
  ++counter.refused;
  return true;
}

template <class Allocate>
void* allocate(const void* caller, Allocate&& allocate) {
  void* memory = nullptr;
  if (!refuses(Resource::memory, caller)) memory = allocate();
  if (memory != nullptr) {
    ++live;
  } else {
    errno = ENOMEM;
  }
  return memory;
}

void* allocate_plain(const void* caller, size_t bytes) {
  return allocate(caller, [&] { return __libc_malloc(bytes); });
}

void* allocate_aligned(const void* caller, size_t alignment, size_t bytes) {
  return allocate(caller, [&] { return __libc_memalign(alignment, bytes); });
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::atomic<int64_t> live_threads{0};
std::atomic<int64_t> thread_limit{INT64_MAX};

struct Routine {
  void* (*start)(void*);
  void* argument;
};

void* run_counted(void* memory) {
  const Routine routine = *static_cast<Routine*>(memory);
  __libc_free(memory);
  void* result = routine.start(routine.argument);
  --live_threads;
  return result;
}

}  // namespace

void limit_threads(int64_t max_threads) {
  thread_limit = max_threads;
}

void arm(Resource resource, int64_t first, Extent extent) {
  dl_iterate_phdr(find_tbb, nullptr);
  Counter& counter = counter_of(resource);
  counter.requested = 0;
  counter.refused = 0;
  counter.first = first;
  counter.last = extent == Extent::one ? first : INT64_MAX;
  counter.armed.store(true, std::memory_order_release);
}

Count disarm() {
  Count count{0, 0};
  for (Counter& counter : counters) {
    if (!counter.armed.exchange(false)) continue;
    count = {counter.requested, counter.refused};
  }
  return count;
}

int64_t live_allocations() {
  return live;
}

}  // namespace faults

using namespace faults;

#define CALLER __builtin_return_address(0)

extern "C" {

void* malloc(size_t bytes) {
  return allocate_plain(CALLER, bytes);
}

void* calloc(size_t count, size_t bytes) {
  return allocate(CALLER, [&] { return __libc_calloc(count, bytes); });
}

void* realloc(void* memory, size_t bytes) {
  const bool is_release = memory != nullptr && bytes == 0;
  if (!is_release && refuses(Resource::memory, CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* moved = __libc_realloc(memory, bytes);
  if (memory == nullptr && moved != nullptr) ++live;
  if (is_release) --live;
  return moved;
}

void free(void* memory) {
  if (memory != nullptr) --live;
  __libc_free(memory);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return allocate_aligned(CALLER, alignment, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  return allocate_aligned(CALLER, alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* allocated = allocate_aligned(CALLER, alignment, bytes);
  if (allocated == nullptr) return ENOMEM;
  *memory = allocated;
  return 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (refuses(Resource::threads, CALLER) || live_threads >= thread_limit) return EAGAIN;
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  works_for_tbb = is_by_tbb(CALLER);
  ++live_threads;
  auto* routine = static_cast<Routine*>(__libc_malloc(sizeof(Routine)));
  *routine = {start, argument};
  const int error = next(thread, attributes, run_counted, routine);
  works_for_tbb = false;
  if (error != 0) {
    __libc_free(routine);
    --live_threads;
  }
  return error;
}

// oneTBB's own allocator asks the operating system; without it oneTBB allocates as everybody.
void* dlopen(const char* path, int mode) {
  if (path != nullptr && std::strstr(path, "tbbmalloc") != nullptr) return nullptr;
  static const auto next = reinterpret_cast<decltype(&dlopen)>(dlsym(RTLD_NEXT, "dlopen"));
  works_for_tbb = is_by_tbb(CALLER);
  void* library = next(path, mode);
  works_for_tbb = false;
  return library;
}
}

void* operator new(size_t bytes) {
  return or_throw(allocate_plain(CALLER, bytes));
}
void* operator new[](size_t bytes) {
  return or_throw(allocate_plain(CALLER, bytes));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_plain(CALLER, bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_plain(CALLER, bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(CALLER, static_cast<size_t>(alignment), bytes));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(CALLER, static_cast<size_t>(alignment), bytes));
}
