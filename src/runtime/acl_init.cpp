// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Start and end of the library at the C interface.
#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/json.h"
#include "runtime/observer.h"
#include "runtime/stream.h"

namespace aclgrad {
namespace {

struct Library {
  std::mutex turn;   // held while a thread starts or ends the library, as long as the queued work takes
  std::mutex mutex;  // of what follows, for moments
  uint64_t references = 0;
  std::optional<Json> configuration;  // of the first aclInit of the process
};

constexpr Singleton<Library> library{};

// An object; empty where there is no file.
Json read_configuration(Parameter parameter, const char* path) {
  if (path == nullptr || *path == '\0') return Json::object();
  return read_json(parameter, path, ACL_ERROR_INVALID_FILE, ACL_ERROR_PARSE_FILE);
}

std::optional<int> implicit_device(const Json& configuration) {
  const Json none = Json::object();
  const Json section = configuration.value("defaultDevice", none);
  if (!section.is_object() || !section.contains("default_device")) return std::nullopt;
  const Json& value = section["default_device"];
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  int device_id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device_id);
  require(error == std::errc() && end == text.data() + text.size(), ACL_ERROR_INVALID_PARAM,
          {"aclInit", kImplicitDevice}, "the number of a device", text);
  return device_id;
}

void warn_of_unused(const Json& configuration) {
  for (const auto& [key, value] : configuration.items()) {
    if (key != "defaultDevice")
      log(LogLevel::warning, fmt::format("aclInit.configPath: \"{}\" has no effect.", key));
  }
}

// Takes back `count` calls of aclInit, or all, and returns how many are left.
uint64_t take_back(uint64_t count) {
  std::lock_guard lock(library().mutex);
  if (library().references > 0) return library().references -= std::min(count, library().references);
  throw Error(ACL_ERROR_REPEAT_FINALIZE, "The library is ended already, or was never started with aclInit.",
              "aclFinalize was called twice, or without aclInit.", "Call aclFinalize once for a program.");
}

// What was counted is given back: waits for all work and releases the default contexts.
void end_library() {
  finish_all_streams();
  reset_all_devices();
  set_implicit_device(std::nullopt);
  runtime_observer->library_ended();
}

}  // namespace

void act_on_start_lock(LockAction action) {
  action(library().mutex);
}

void continue_start_in_child() {
  begin_anew(library().turn);
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclInit(const char* configPath) {
  return entry(__func__, [&] {
    Json configuration = read_configuration({"aclInit", "configPath"}, configPath);
    std::lock_guard turn(library().turn);
    std::unique_lock lock(library().mutex);
    if (library().references > 0) {
      ++library().references;
      throw Error(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before. This may be ignored.",
                  "Two parts of the program start the library.", "Go on, or call aclInit once only.");
    }
    require(!library().configuration || *library().configuration == configuration, ACL_ERROR_INVALID_PARAM,
            {"aclInit", "configPath"}, "the configuration of the first aclInit of the process",
            "another one");
    lock.unlock();
    set_implicit_device(implicit_device(configuration));
    warn_of_unused(configuration);
    lock.lock();
    library().configuration = std::move(configuration);
    library().references = 1;
    runtime_observer->library_started(true);
  });
}

aclError aclFinalize() {
  return entry(__func__, [] {
    std::lock_guard turn(library().turn);
    take_back(UINT64_MAX);
    end_library();
  });
}

aclError aclFinalizeReference(uint64_t* refCount) {
  return entry(__func__, [&] {
    require_pointer(refCount, {"aclFinalizeReference", "refCount"});
    std::lock_guard turn(library().turn);
    *refCount = take_back(1);
    if (*refCount == 0) end_library();
  });
}

aclnnStatus aclnnInit(const char* configPath) {
  return entry(__func__, [&] {
    read_configuration({"aclnnInit", "configPath"}, configPath);
    runtime_observer->library_started(false);
  });
}

// The operators keep nothing that would have to be given back.
aclnnStatus aclnnFinalize() {
  return ACL_SUCCESS;
}
