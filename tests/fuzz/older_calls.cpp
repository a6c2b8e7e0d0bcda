// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of the older single-operator interface, and of communicators.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "acl/acl_op_compiler.h"
#include "arguments.h"
#include "hccl/hccl.h"
#include "hccl/hccl_comm_resource.h"

namespace aclgrad::fuzz {
namespace {

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

struct RankTable : Drawn<const char*> {
  explicit RankTable(Program& program) : Drawn{rank_table(program)} {}
};

struct Rank : Drawn<uint32_t> {
  explicit Rank(Program& program)
      : Drawn{program.refused_if(program.rarely()) ? program.draw<uint32_t>(1, ~0u) : 0} {}
};

struct RankCount : Drawn<uint32_t> {
  explicit RankCount(Program& program)
      : Drawn{program.rarely() ? static_cast<uint32_t>(program.integer()) : 1} {
    program.refused_if(value != 1);
  }
};

// What a function of the library sets, rarely not set.
template <class Set, auto kInitialise>
struct SetBy : Out<Set> {
  explicit SetBy(Program& program) : Out<Set>(program) {
    std::memset(&this->value, 0, sizeof(Set));
    if (!program.refused_if(program.rarely())) kInitialise(&this->value);
  }
};
using Settings = SetBy<HcclCommConfig, HcclCommConfigInit>;
using RootInfo = SetBy<HcclRootInfo, HcclGetRootInfo>;

using Communicator = Made<Kind::communicator>;
using Desc = Handle<Kind::tensor_desc>;
using DataBuffer = Handle<Kind::data_buffer>;

const Call kCalls[] = {
    {"aclCreateDataBuffer",
     [](Program& program) {
       void* data = program.address(8);
       program.made(Kind::data_buffer, aclCreateDataBuffer(data, static_cast<size_t>(program.integer())));
     }},
    CALL(aclDestroyDataBuffer, Ended<Kind::data_buffer>),
    ASK(aclGetDataBufferAddr, DataBuffer),
    ASK(aclGetDataBufferSizeV2, DataBuffer),
    {"aclCreateTensorDesc",
     [](Program& program) {
       const Shape dims = program.integers(5 - program.draw<size_t>(0, 5));
       const int count = program.rarely() ? -1 : static_cast<int>(dims.size());
       const int64_t* values = program.rarely() ? nullptr : dims.data();
       program.refused_if(count < 0 || (count > 0 && values == nullptr));
       const DataTypeValue type(program);
       const FormatValue format(program);
       program.made(Kind::tensor_desc, aclCreateTensorDesc(type, count, values, format));
     }},
    {"aclDestroyTensorDesc",
     [](Program& program) {
       const Handle<Kind::tensor_desc, Null::allowed> desc(program);
       aclDestroyTensorDesc(desc);
       program.returned();
       program.gone(Kind::tensor_desc, desc);
     }},
    ASK(aclGetTensorDescType, Desc),
    ASK(aclGetTensorDescFormat, Desc),
    ASK(aclGetTensorDescSize, Desc),
    ASK(aclGetTensorDescElementCount, Desc),
    ASK(aclGetTensorDescNumDims, Desc),
    CALL(aclGetTensorDescDimV2, Desc, Any<size_t>, Out<int64_t>),
    {"aclopCreateAttr", [](Program&) { require(aclopCreateAttr() != nullptr, "attributes can be made"); }},
    {"aclopDestroyAttr",
     [](Program& program) { aclopDestroyAttr(program.coin() ? aclopCreateAttr() : nullptr); }},
    REFUSED(aclopSetModelDir),
    REFUSED(aclopExecuteV2),
    REFUSED(aclopCompileAndExecute),
    REFUSED(aclopCompileAndExecuteV2),
    CALL(HcclCommInitAll, RankCount, Out<int32_t>, Communicator),
    {"HcclGetCommName",
     [](Program& program) {
       const Handle<Kind::communicator> communicator(program);
       char name[128];
       if (program.succeeded(HcclGetCommName(communicator, program.out(name[0]))))
         require(std::strlen(name) > 0, "it has a name");
     }},
    CALL(HcclCommDestroy, Ended<Kind::communicator>),
    CALL(HcclCommInitClusterInfo, RankTable, Rank, Communicator),
    CALL(HcclCommInitClusterInfoConfig, RankTable, Rank, Settings, Communicator),
    CALL(HcclGetRootInfo, Out<HcclRootInfo>),
    CALL(HcclCommInitRootInfo, RankCount, RootInfo, Rank, Communicator),
    CALL(HcclCommInitRootInfoConfig, RankCount, RootInfo, Rank, Settings, Communicator),
    REFUSED(HcclCreateComResource),
    REFUSED(HcclAllocComResourceByTiling),
    REFUSED(HcclGetAicpuOpStreamNotify),
};

}  // namespace

Calls older_calls() {
  return kCalls;
}

}  // namespace aclgrad::fuzz
