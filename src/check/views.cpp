// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/views.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/never_destroyed.h"
#include "check/call_stack.h"
#include "check/memory.h"

namespace aclgrad::check {
namespace {

// ---- Host access ----

struct sigaction earlier_action;

struct Interruption {
  const void* instruction;  // null where the processor's state is not known here
  HostUse use;
};

Interruption interruption_of(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrites = 2;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return {reinterpret_cast<const void*>(registers[REG_RIP]),
          (registers[REG_ERR] & kWrites) != 0 ? HostUse::writes : HostUse::reads};
#elif defined(__aarch64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
  return {reinterpret_cast<const void*>(registers.pc), HostUse::uses};
#else
  static_cast<void>(context);
  return {nullptr, HostUse::uses};
#endif
}

// As if this handler were not there.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((earlier_action.sa_flags & SA_SIGINFO) != 0) {
    earlier_action.sa_sigaction(signal, info, context);
  } else if (earlier_action.sa_handler != SIG_DFL && earlier_action.sa_handler != SIG_IGN) {
    earlier_action.sa_handler(signal);
  } else {
    sigaction(signal, &earlier_action, nullptr);
    const bool was_sent = info->si_code <= 0;
    if (was_sent) raise(signal);  // else the access is repeated on return
  }
}

// An access interrupts the program's own code, or a call that got a wrong pointer before it took any lock, so
// that all may be used here that may be used there.
void handle(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool is_access = info->si_code > 0 && is_in_program_view(info->si_addr);
  if (is_access) {
    const Interruption interruption = interruption_of(context);
    host_used(info->si_addr, interruption.use, CallStack::interrupted_at(interruption.instruction));
  } else {
    pass_on(signal, info, context);
  }
  errno = saved_errno;
}

void watch_host_accesses() {
  sigaction(SIGSEGV, nullptr, &earlier_action);
  struct sigaction action {};
  action.sa_sigaction = handle;
  // On the stack that the earlier handler asks for: it may be there for the overflow of the other.
  action.sa_flags = SA_SIGINFO | (earlier_action.sa_flags & SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, nullptr);
}

// ---- Views ----

// Address space only: pages become memory when they are used.
constexpr size_t kViewBytes = size_t{1} << 44;

struct Views {
  Views();

  std::byte* program = nullptr;
  std::byte* library = nullptr;
  int file = -1;
  bool are_of_parent = false;  // this process is a fork

  size_t used = 0;                               // bytes from the start that were handed out at some time
  std::multimap<size_t, std::byte*> given_back;  // by size
};

// Sanitizers lay out the address space themselves and have signal handlers of their own.
bool runs_under_sanitizer() {
  for (const char* symbol : {"__asan_init", "__tsan_init", "__msan_init"}) {
    if (dlsym(RTLD_DEFAULT, symbol) != nullptr) return true;
  }
  return false;
}

std::byte* map_file(int file, int protection) {
  void* address = mmap(nullptr, kViewBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, kViewBytes, MADV_DONTDUMP);  // a core would be as large as the views
  return static_cast<std::byte*>(address);
}

Views::Views() {
  rlimit file_size{};
  const bool may_be_large = getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur >= kViewBytes;
  if (!may_be_large || runs_under_sanitizer()) return;
  file = memfd_create("aclgrad", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(kViewBytes)) != 0) return;
  library = map_file(file, PROT_READ | PROT_WRITE);
  if (library == nullptr) return;
  program = map_file(file, PROT_NONE);
  if (program != nullptr) watch_host_accesses();
}

std::mutex mutex;  // of what was handed out

constexpr Singleton<Views> views{};

size_t page_size() {
  return static_cast<size_t>(getpagesize());
}

size_t whole_pages(size_t bytes) {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

void protect(const std::byte* begin, const std::byte* end, int protection) {
  if (begin >= end || !is_in_program_view(begin)) return;
  auto* page = const_cast<std::byte*>(page_at_or_before(begin));
  mprotect(page, whole_pages(static_cast<size_t>(end - page)), protection);
}

}  // namespace

std::byte* map_views(size_t bytes) {
  Views& all = views();
  if (all.program == nullptr || all.are_of_parent) return nullptr;
  const size_t size = whole_pages(bytes);
  std::lock_guard lock(mutex);
  std::byte* start = nullptr;
  if (const auto found = all.given_back.find(size); found != all.given_back.end()) {
    start = found->second;
    all.given_back.erase(found);
  } else if (size <= kViewBytes - all.used) {
    start = all.program + all.used;
    all.used += size;
  }
  if (start != nullptr) allow_host_access(start, start + size);
  return start;
}

void unmap_views(std::byte* start, size_t bytes) {
  Views& all = views();
  const size_t size = whole_pages(bytes);
  deny_host_access(start, start + size);
  fallocate(all.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start - all.program,
            static_cast<off_t>(size));
  std::lock_guard lock(mutex);
  all.given_back.emplace(size, start);
}

bool is_in_program_view(const void* address) {
  const Views& all = views();
  const auto* byte = static_cast<const std::byte*>(address);
  return all.program != nullptr && byte >= all.program && byte < all.program + kViewBytes;
}

void* library_view(void* address) {
  return const_cast<void*>(library_view(const_cast<const void*>(address)));
}

const void* library_view(const void* address) {
  if (!is_in_program_view(address)) return address;
  const Views& all = views();
  return all.library + (static_cast<const std::byte*>(address) - all.program);
}

bool read_memory(const void* from, std::byte* to, size_t bytes) {
  auto* source = const_cast<std::byte*>(static_cast<const std::byte*>(library_view(from)));
  while (bytes > 0) {
    const iovec target{to, bytes};
    const iovec origin{source, bytes};
    const ssize_t done = process_vm_readv(getpid(), &target, 1, &origin, 1, 0);
    if (done <= 0) return false;
    to += done;
    source += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

void allow_host_access(const std::byte* begin, const std::byte* end) {
  protect(begin, end, PROT_READ | PROT_WRITE);
}

void deny_host_access(const std::byte* begin, const std::byte* end) {
  protect(begin, end, PROT_NONE);
}

const std::byte* page_at_or_before(const std::byte* address) {
  return address - reinterpret_cast<uintptr_t>(address) % page_size();
}

const std::byte* page_at_or_behind(const std::byte* address) {
  return page_at_or_before(address + page_size() - 1);
}

void act_on_view_lock(LockAction action) {
  views();  // made by now: a child would wait for a thread of its parent that was making them
  action(mutex);
}

void keep_views_to_parent() {
  views().are_of_parent = true;
}

}  // namespace aclgrad::check
