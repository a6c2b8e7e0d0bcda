// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The options of contexts and of the process at the C interface.
#include "acl/acl_rt.h"
#include "runtime/entry.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

// Zero where never set.
Options process_options{};

enum class Scope { context, process };

void check_option(const char* function, Scope scope, aclSysParamOpt option) {
  const int last = scope == Scope::process ? ACL_OPT_ENABLE_KERNEL_EARLY_START : ACL_OPT_STRONG_CONSISTENCY;
  require(option >= 0 && option <= last, ACL_ERROR_INVALID_PARAM, {function, "opt"},
          fmt::format("0 to {}", last), static_cast<int>(option));
}

void check_value(const char* function, aclSysParamOpt option, int64_t value) {
  const int last = option == ACL_OPT_DETERMINISTIC ? 3 : 1;
  require(value >= 0 && value <= last, ACL_ERROR_RT_PARAM_INVALID, {function, "value"},
          fmt::format("0 to {} for option {}", last, static_cast<int>(option)), value);
}

std::atomic<int64_t>& slot_of(Options& options, aclSysParamOpt option) {
  return options[static_cast<size_t>(option)];
}

}  // namespace

bool deterministic_requested() noexcept {
  return slot_of(process_options, ACL_OPT_DETERMINISTIC) != 0;
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return entry(__func__, [&] {
    check_option("aclrtCtxSetSysParamOpt", Scope::context, opt);
    check_value("aclrtCtxSetSysParamOpt", opt, value);
    slot_of(current_context()->options, opt) = value;
    // Operators read the process's option, so that the last writer wins, whichever function it called.
    slot_of(process_options, opt) = value;
  });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return entry(__func__, [&] {
    check_option("aclrtCtxGetSysParamOpt", Scope::context, opt);
    require_pointer(value, {"aclrtCtxGetSysParamOpt", "value"});
    const int64_t set = slot_of(current_context()->options, opt);
    require(set != kOptionUnset, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, {"aclrtCtxGetSysParamOpt", "opt"},
            "an option that was set in the current context", static_cast<int>(opt));
    *value = set;
  });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return entry(__func__, [&] {
    check_option("aclrtSetSysParamOpt", Scope::process, opt);
    check_value("aclrtSetSysParamOpt", opt, value);
    slot_of(process_options, opt) = value;
  });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return entry(__func__, [&] {
    check_option("aclrtGetSysParamOpt", Scope::process, opt);
    require_pointer(value, {"aclrtGetSysParamOpt", "value"});
    *value = slot_of(process_options, opt);
  });
}
