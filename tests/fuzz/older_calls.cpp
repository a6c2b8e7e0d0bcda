// Calls of the older single-operator interface, and of communicators.
#include <cstring>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "calls.h"
#include "hccl/hccl.h"

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
       const auto count = program.rarely() ? static_cast<uint32_t>(program.integer()) : 1;
       int32_t devices[] = {static_cast<int32_t>(program.integer())};
       HcclComm communicator = nullptr;
       int32_t* devices_at = program.out(devices[0]);
       program.refused_if(count != 1);
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
};

}  // namespace

Calls older_calls() {
  return kOlder;
}

}  // namespace aclgrad::fuzz
