// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of the older single-operator interface, and of communicators.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "calls.h"
#include "hccl/hccl.h"
#include "hccl/hccl_comm_resource.h"

namespace aclgrad::fuzz {
namespace {

template <auto kGet>
void get_of_desc(Program& program) {
  kGet(program.handle<aclTensorDesc>(Kind::tensor_desc));
  program.returned();
}

template <auto kRefuse, class... Arguments>
void refuse(Program& program, Arguments... arguments) {
  program.refused_if(true);
  program.succeeded(kRefuse(arguments...));
}

// A file with the text, for as long as the process lives.
std::string path_of_file(std::string_view text) {
  const int file = memfd_create("rank_table", 0);
  require(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
          "a file can be written");
  return "/proc/self/fd/" + std::to_string(file);
}

// Of one device; rarely one that is refused.
const char* rank_table(Program& program) {
  static const std::string good = path_of_file(R"({"server_list": [{"device": [{"device_id": "5"}]}]})");
  static const std::string two = path_of_file(R"({"server_list": [{"device": [{}]}, {"device": [{}]}]})");
  static const std::string none = path_of_file("[3, {");
  if (!program.refused_if(program.rarely())) return good.c_str();
  const char* const wrong[] = {nullptr, "/", two.c_str(), none.c_str()};
  return program.one_of(wrong);
}

uint32_t rank(Program& program) {
  return program.refused_if(program.rarely()) ? program.draw<uint32_t>(1, ~0u) : 0;
}

// Of settings that rarely have no defaults.
HcclCommConfig settings(Program& program) {
  HcclCommConfig config;
  std::memset(&config, 0, sizeof config);
  if (!program.refused_if(program.rarely())) HcclCommConfigInit(&config);
  return config;
}

HcclRootInfo root_info(Program& program) {
  HcclRootInfo root{};
  if (!program.refused_if(program.rarely())) HcclGetRootInfo(&root);
  return root;
}

uint32_t rank_count(Program& program) {
  const auto count = program.rarely() ? static_cast<uint32_t>(program.integer()) : 1;
  program.refused_if(count != 1);
  return count;
}

const Call kOlder[] = {
    {"aclCreateDataBuffer",
     [](Program& program) {
       void* data = program.address(8);
       program.made(Kind::data_buffer, aclCreateDataBuffer(data, static_cast<size_t>(program.integer())));
     }},
    {"aclDestroyDataBuffer",
     [](Program& program) {
       auto* buffer = program.handle<aclDataBuffer>(Kind::data_buffer);
       if (program.succeeded(aclDestroyDataBuffer(buffer))) program.remove(Kind::data_buffer, buffer);
     }},
    {"aclGetDataBufferAddr",
     [](Program& program) {
       aclGetDataBufferAddr(program.handle<aclDataBuffer>(Kind::data_buffer));
       program.returned();
     }},
    {"aclGetDataBufferSizeV2",
     [](Program& program) {
       aclGetDataBufferSizeV2(program.handle<aclDataBuffer>(Kind::data_buffer));
       program.returned();
     }},
    {"aclCreateTensorDesc",
     [](Program& program) {
       const Shape dims = program.integers(5 - program.draw<size_t>(0, 5));
       const int count = program.rarely() ? -1 : static_cast<int>(dims.size());
       const int64_t* values = program.rarely() ? nullptr : dims.data();
       program.refused_if(count < 0 || (count > 0 && values == nullptr));
       const aclDataType type = program.value_of(ACL_FLOAT4_E1M2);
       const aclFormat format = program.value_of(ACL_FORMAT_FRACTAL_NZ_C0_8);
       program.made(Kind::tensor_desc, aclCreateTensorDesc(type, count, values, format));
     }},
    {"aclDestroyTensorDesc",
     [](Program& program) {
       auto* desc = program.handle<aclTensorDesc>(Kind::tensor_desc, Null::allowed);
       aclDestroyTensorDesc(desc);
       program.returned();
       program.remove(Kind::tensor_desc, desc);
     }},
    {"aclGetTensorDescType", get_of_desc<aclGetTensorDescType>},
    {"aclGetTensorDescFormat", get_of_desc<aclGetTensorDescFormat>},
    {"aclGetTensorDescSize", get_of_desc<aclGetTensorDescSize>},
    {"aclGetTensorDescElementCount", get_of_desc<aclGetTensorDescElementCount>},
    {"aclGetTensorDescNumDims", get_of_desc<aclGetTensorDescNumDims>},
    {"aclGetTensorDescDimV2",
     [](Program& program) {
       auto* desc = program.handle<aclTensorDesc>(Kind::tensor_desc);
       int64_t size = 0;
       const auto index = static_cast<size_t>(program.integer());
       program.succeeded(aclGetTensorDescDimV2(desc, index, program.out(size)));
     }},
    {"aclopCreateAttr", [](Program&) { require(aclopCreateAttr() != nullptr, "attributes can be made"); }},
    {"aclopDestroyAttr",
     [](Program& program) { aclopDestroyAttr(program.coin() ? aclopCreateAttr() : nullptr); }},
    {"aclopSetModelDir", [](Program& program) { refuse<aclopSetModelDir>(program, "/"); }},
    {"aclopExecuteV2",
     [](Program& program) {
       refuse<aclopExecuteV2>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr, aclopCreateAttr(),
                              stream_or_default(program));
     }},
    {"aclopCompileAndExecute",
     [](Program& program) {
       refuse<aclopCompileAndExecute>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr,
                                      aclopCreateAttr(), ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr,
                                      stream_or_default(program));
     }},
    {"aclopCompileAndExecuteV2",
     [](Program& program) {
       refuse<aclopCompileAndExecuteV2>(program, "type", 0, nullptr, nullptr, 0, nullptr, nullptr,
                                        aclopCreateAttr(), ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr,
                                        stream_or_default(program));
     }},
    {"HcclCommInitAll",
     [](Program& program) {
       const uint32_t count = rank_count(program);
       int32_t devices[] = {static_cast<int32_t>(program.integer())};
       HcclComm communicator = nullptr;
       int32_t* devices_at = program.out(devices[0]);
       if (!program.succeeded(HcclCommInitAll(count, devices_at, program.out(communicator)))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclGetCommName",
     [](Program& program) {
       void* communicator = program.handle(Kind::communicator);
       char name[128];
       char* at = program.out(name[0]);
       if (program.succeeded(HcclGetCommName(communicator, at)))
         require(std::strlen(name) > 0, "it has a name");
     }},
    {"HcclCommDestroy",
     [](Program& program) {
       void* communicator = program.handle(Kind::communicator);
       if (program.succeeded(HcclCommDestroy(communicator))) program.remove(Kind::communicator, communicator);
     }},
    {"HcclCommInitClusterInfo",
     [](Program& program) {
       const char* table = rank_table(program);
       const uint32_t own_rank = rank(program);
       HcclComm communicator = nullptr;
       HcclComm* at = program.out(communicator);
       if (!program.succeeded(HcclCommInitClusterInfo(table, own_rank, at))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclCommInitClusterInfoConfig",
     [](Program& program) {
       const char* table = rank_table(program);
       const uint32_t own_rank = rank(program);
       HcclCommConfig config = settings(program);
       HcclCommConfig* config_at = program.out(config);
       HcclComm communicator = nullptr;
       HcclComm* at = program.out(communicator);
       if (!program.succeeded(HcclCommInitClusterInfoConfig(table, own_rank, config_at, at))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclGetRootInfo",
     [](Program& program) {
       HcclRootInfo root;
       program.succeeded(HcclGetRootInfo(program.out(root)));
     }},
    {"HcclCommInitRootInfo",
     [](Program& program) {
       const uint32_t ranks = rank_count(program), own_rank = rank(program);
       HcclRootInfo root = root_info(program);
       HcclRootInfo* root_at = program.out(root);
       HcclComm communicator = nullptr;
       HcclComm* at = program.out(communicator);
       if (!program.succeeded(HcclCommInitRootInfo(ranks, root_at, own_rank, at))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclCommInitRootInfoConfig",
     [](Program& program) {
       const uint32_t ranks = rank_count(program), own_rank = rank(program);
       HcclRootInfo root = root_info(program);
       HcclRootInfo* root_at = program.out(root);
       HcclCommConfig config = settings(program);
       HcclCommConfig* config_at = program.out(config);
       HcclComm communicator = nullptr;
       HcclComm* at = program.out(communicator);
       if (!program.succeeded(HcclCommInitRootInfoConfig(ranks, root_at, own_rank, config_at, at))) return;
       program.add(Kind::communicator, communicator);
     }},
    {"HcclCreateComResource",
     [](Program& program) { refuse<HcclCreateComResource>(program, "name", 0, nullptr); }},
    {"HcclAllocComResourceByTiling",
     [](Program& program) {
       void* communicator = program.handle(Kind::communicator);
       refuse<HcclAllocComResourceByTiling>(program, communicator, stream_or_default(program), nullptr,
                                            nullptr);
     }},
    {"HcclGetAicpuOpStreamNotify",
     [](Program& program) { refuse<HcclGetAicpuOpStreamNotify>(program, "name", nullptr, nullptr); }},
};

}  // namespace

Calls older_calls() {
  return kOlder;
}

}  // namespace aclgrad::fuzz
