// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "check/host_access.h"

#include <signal.h>
#include <ucontext.h>

#include <cerrno>

#include "check/memory.h"
#include "check/place.h"
#include "check/views.h"

namespace aclgrad::check {
namespace {

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
  const auto& state = static_cast<const ucontext_t*>(context)->uc_mcontext;
  return {reinterpret_cast<const void*>(state.pc), HostUse::uses};
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
    host_used(info->si_addr, interruption.use, Place::interrupted_at(interruption.instruction));
  } else {
    pass_on(signal, info, context);
  }
  errno = saved_errno;
}

}  // namespace

void watch_host_accesses() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &earlier_action);
}

}  // namespace aclgrad::check
