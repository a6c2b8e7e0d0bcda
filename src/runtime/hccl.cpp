// Communicators of a single device, for programs that make one without communicating.
#include "hccl/hccl.h"

#include <cstring>
#include <memory>

#include "base/handle_registry.h"
#include "runtime/entry.h"

using namespace aclgrad;

namespace {

struct Communicator {
  int32_t device_id;
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

}  // namespace

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return hccl_entry([&] {
    require_hccl_pointer(devices, {"HcclCommInitAll", "devices"});
    require_hccl_pointer(comms, {"HcclCommInitAll", "comms"});
    require(ndev > 0, HCCL_E_PARA, {"HcclCommInitAll", "ndev"}, "1", ndev);
    require(ndev == 1, HCCL_E_NOT_SUPPORT, {"HcclCommInitAll", "ndev"},
            "1, since devices cannot communicate here", ndev);
    auto communicator = std::make_unique<Communicator>(Communicator{devices[0]});
    register_handle(communicator.get(), HandleKind::communicator);
    comms[0] = communicator.release();
  });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return hccl_entry([&] {
    require_hccl_pointer(comm, {"HcclGetCommName", "comm"});
    require_hccl_pointer(commName, {"HcclGetCommName", "commName"});
    require_communicator(is_live_handle(comm, HandleKind::communicator), {"HcclGetCommName", "comm"}, comm);
    const std::string name =
        fmt::format("aclgrad_device_{}", static_cast<const Communicator*>(comm)->device_id);
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
