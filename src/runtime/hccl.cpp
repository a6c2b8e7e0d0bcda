// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Communicators of a single device, for programs that make one without communicating.
#include "hccl/hccl.h"

#include <cstring>
#include <memory>

#include "base/handle_registry.h"
#include "hccl/hccl_comm_resource.h"
#include "runtime/device.h"
#include "runtime/entry.h"
#include "runtime/json.h"

using namespace aclgrad;

namespace {

struct Communicator {
  std::string name;
};

template <class Body>
HcclResult hccl_entry(Body&& body) noexcept {
  return static_cast<HcclResult>(guarded(HCCL_E_MEMORY, body));
}

void require_hccl_pointer(const void* pointer, Parameter parameter) {
  require(pointer != nullptr, HCCL_E_PTR, parameter, "a pointer", "null");
}

void require_communicator(bool live, Parameter parameter, HcclComm comm) {
  require(live, HCCL_E_PARA, parameter, "a live HcclComm", comm);
}

HcclComm new_communicator(std::string name) {
  auto communicator = std::make_unique<Communicator>(Communicator{std::move(name)});
  register_handle(communicator.get(), HandleKind::communicator);
  return communicator.release();
}

std::string default_name(std::string_view device_id) {
  return fmt::format("aclgrad_device_{}", device_id);
}

// The objects in the list `key` of each of the objects.
std::vector<Json> members(const std::vector<Json>& objects, const char* key) {
  std::vector<Json> members;
  for (const Json& object : objects) {
    for (const Json& member : object.value(key, Json::array())) {
      if (member.is_object()) members.push_back(member);
    }
  }
  return members;
}

// The name of the communicator of the only device in the rank table.
std::string name_from_table(Parameter parameter, const char* path) {
  const Json table = read_json(parameter, path, HCCL_E_OPEN_FILE_FAILURE, HCCL_E_PARA);
  const std::vector<Json> devices = members(members({table}, "server_list"), "device");
  require(!devices.empty(), HCCL_E_PARA, parameter,
          "a file with a JSON object that has devices in a server_list", path);
  require(devices.size() == 1, HCCL_E_NOT_SUPPORT, parameter,
          "a file with one device, since devices cannot communicate here",
          fmt::format("{} devices", devices.size()));
  const Json id = devices[0].value("device_id", Json("0"));
  const std::string text = id.is_string() ? id.get<std::string>() : id.dump();
  return default_name(text.substr(0, COMM_NAME_MAX_LENGTH / 2));  // all of it in any table that is right
}

// The name that the settings give; empty where they give none.
std::string name_from_config(Parameter parameter, const HcclCommConfig& config) {
  HcclCommConfig defaults;
  HcclCommConfigInit(&defaults);
  require(std::memcmp(config.reserved, defaults.reserved, sizeof config.reserved) == 0, HCCL_E_PARA,
          parameter, "settings that HcclCommConfigInit has set first", "others");
  const size_t length = strnlen(config.hcclCommName, COMM_NAME_MAX_LENGTH);
  require(length < COMM_NAME_MAX_LENGTH, HCCL_E_PARA, parameter, "a hcclCommName with an end mark",
          "one without");
  return {config.hcclCommName, length};
}

void require_first_rank(std::string_view function, uint32_t rank) {
  require(rank == 0, HCCL_E_PARA, {function, "rank"}, "0, the only rank", rank);
}

HcclComm communicator_of_table(std::string_view function, const char* table, uint32_t rank,
                               const std::string& wanted_name) {
  const std::string name = name_from_table({function, "clusterInfo"}, table);
  require_first_rank(function, rank);
  return new_communicator(wanted_name.empty() ? name : wanted_name);
}

void require_one(std::string_view function, std::string_view parameter, uint32_t count) {
  require(count > 0, HCCL_E_PARA, {function, parameter}, "1", count);
  require(count == 1, HCCL_E_NOT_SUPPORT, {function, parameter}, "1, since devices cannot communicate here",
          count);
}

// What a root info begins with, and the name of its communicator.
constexpr std::string_view kRootName = "aclgrad_root";

HcclComm communicator_of_root(std::string_view function, uint32_t ranks, const HcclRootInfo& root,
                              uint32_t rank, const std::string& wanted_name) {
  require_one(function, "nRanks", ranks);
  require(kRootName == std::string_view(root.internal, strnlen(root.internal, sizeof root.internal)),
          HCCL_E_PARA, {function, "rootInfo"}, "what HcclGetRootInfo has written", "something else");
  require_first_rank(function, rank);
  return new_communicator(wanted_name.empty() ? std::string(kRootName) : wanted_name);
}

HcclResult refuse_communicating_kernels(const char* function) {
  return hccl_entry([&] {
    throw Error(HCCL_E_NOT_SUPPORT, fmt::format("{} is not supported.", function),
                "The program runs kernels that communicate by themselves.",
                "Do without them on this device.");
  });
}

}  // namespace

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return hccl_entry([&] {
    require_hccl_pointer(devices, {"HcclCommInitAll", "devices"});
    require_hccl_pointer(comms, {"HcclCommInitAll", "comms"});
    require_one("HcclCommInitAll", "ndev", ndev);
    require(devices[0] >= 0 && devices[0] < visible_device_count(), HCCL_E_PARA,
            {"HcclCommInitAll", "devices"}, "the index of a device", devices[0]);
    comms[0] = new_communicator(default_name(std::to_string(devices[0])));
  });
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  return hccl_entry([&] {
    require_hccl_pointer(clusterInfo, {"HcclCommInitClusterInfo", "clusterInfo"});
    require_hccl_pointer(comm, {"HcclCommInitClusterInfo", "comm"});
    *comm = communicator_of_table("HcclCommInitClusterInfo", clusterInfo, rank, "");
  });
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
  return hccl_entry([&] {
    constexpr std::string_view kFunction = "HcclCommInitClusterInfoConfig";
    require_hccl_pointer(clusterInfo, {kFunction, "clusterInfo"});
    require_hccl_pointer(config, {kFunction, "config"});
    require_hccl_pointer(comm, {kFunction, "comm"});
    const std::string name = name_from_config({kFunction, "config"}, *config);
    *comm = communicator_of_table(kFunction, clusterInfo, rank, name);
  });
}

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return hccl_entry([&] {
    require_hccl_pointer(rootInfo, {"HcclGetRootInfo", "rootInfo"});
    *rootInfo = {};
    kRootName.copy(rootInfo->internal, kRootName.size());
  });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                HcclComm* comm) {
  return hccl_entry([&] {
    require_hccl_pointer(rootInfo, {"HcclCommInitRootInfo", "rootInfo"});
    require_hccl_pointer(comm, {"HcclCommInitRootInfo", "comm"});
    *comm = communicator_of_root("HcclCommInitRootInfo", nRanks, *rootInfo, rank, "");
  });
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
  return hccl_entry([&] {
    constexpr std::string_view kFunction = "HcclCommInitRootInfoConfig";
    require_hccl_pointer(rootInfo, {kFunction, "rootInfo"});
    require_hccl_pointer(config, {kFunction, "config"});
    require_hccl_pointer(comm, {kFunction, "comm"});
    const std::string name = name_from_config({kFunction, "config"}, *config);
    *comm = communicator_of_root(kFunction, nRanks, *rootInfo, rank, name);
  });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return hccl_entry([&] {
    require_hccl_pointer(comm, {"HcclGetCommName", "comm"});
    require_hccl_pointer(commName, {"HcclGetCommName", "commName"});
    require_communicator(is_live_handle(comm, HandleKind::communicator), {"HcclGetCommName", "comm"}, comm);
    const std::string& name = static_cast<const Communicator*>(comm)->name;
    std::memcpy(commName, name.c_str(), name.size() + 1);
  });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return hccl_entry([&] {
    require_hccl_pointer(comm, {"HcclCommDestroy", "comm"});
    require_communicator(unregister_handle(comm, HandleKind::communicator), {"HcclCommDestroy", "comm"},
                         comm);
    delete static_cast<Communicator*>(comm);
  });
}

HcclResult HcclCreateComResource(const char*, uint32_t, void**) {
  return refuse_communicating_kernels(__func__);
}

HcclResult HcclAllocComResourceByTiling(HcclComm, void*, void*, void**) {
  return refuse_communicating_kernels(__func__);
}

HcclResult HcclGetAicpuOpStreamNotify(const char*, aclrtStream*, void**) {
  return refuse_communicating_kernels(__func__);
}
