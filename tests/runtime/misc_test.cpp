// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

#include "acl/acl_op_compiler.h"
#include "aclnn/opdev/platform.h"
#include "base/data_type.h"
#include "fixture.h"
#include "hccl/hccl.h"
#include "hccl/hccl_comm_resource.h"

namespace aclgrad {
namespace {

class OptionTest : public RuntimeTest {
 protected:
  void TearDown() override {
    aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0);
    RuntimeTest::TearDown();
  }

  static int64_t of_process() {
    int64_t value = -1;
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    return value;
  }
};

TEST_F(OptionTest, OfAContextIsThatOfTheProcessToo) {
  int64_t value = -1;
  EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
  EXPECT_EQ(of_process(), 0);
  EXPECT_FALSE(deterministic_requested());
  ASSERT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_SUCCESS);
  EXPECT_EQ(of_process(), 1);
  EXPECT_TRUE(deterministic_requested());
  ASSERT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0), ACL_SUCCESS);
  EXPECT_FALSE(deterministic_requested()) << "the last writer wins";
  ASSERT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
  EXPECT_EQ(value, 1) << "the context keeps its own";
}

TEST_F(OptionTest, ChecksParameters) {
  EXPECT_EQ(aclrtSetSysParamOpt(outside_of<aclSysParamOpt>(4), 0), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, 0), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, 0), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 2), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM);
  in_other_thread([] {
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_SUCCESS) << "the process needs no context";
  });
}

TEST_F(RuntimeTest, MessagesHaveTheDocumentedForm) {
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
  aclrtFree(nullptr);
  aclrtDestroyStream(nullptr);
  EXPECT_THAT(
      recent_message(),
      testing::MatchesRegex("\\[PID: [0-9]+\\] [^ ]+ [A-Za-z_]+\\(EH0001\\): aclrtDestroyStream.stream: "
                            "expected a pointer, got null.\n"
                            " +TraceBack \\(most recent call last\\):\n"
                            " +\\[PID: [0-9]+\\] .*: aclrtFree.devPtr: expected a pointer, got null."));
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr) << "telling clears";
}

TEST_F(RuntimeTest, EveryMessageNamesTheCallThatFailed) {
  in_other_thread([] {
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_THAT(recent_message(), HasSubstr("aclrtSynchronizeDevice: The calling thread has no context."));
    EXPECT_EQ(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT_THAT(recent_message(), HasSubstr("aclrtProcessReport: The calling thread has not subscribed"));
  });
  EXPECT_EQ(aclrtStreamQuery(&stream_, nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtStreamStatus status;
  EXPECT_EQ(aclrtStreamQuery(&stream_, &status), ACL_ERROR_RT_STREAM_CONTEXT);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtStreamQuery.stream: expected a live aclrtStream"));
  submit_failure(stream_, ACL_ERROR_RT_AICORE_EXCEPTION, "Something failed.");
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtSynchronizeStream: Something failed."));
}

TEST_F(RuntimeTest, LastErrorOfAnotherLevelIsRefused) {
  EXPECT_EQ(aclrtPeekAtLastError(outside_of<aclrtLastErrLevel>(1)), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtPeekAtLastError.level: expected ACL_RT_THREAD_LEVEL, got 1"));
  EXPECT_EQ(aclrtGetLastError(outside_of<aclrtLastErrLevel>(-1)), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(recent_message(), HasSubstr("aclrtGetLastError.level: expected ACL_RT_THREAD_LEVEL, got -1"));
}

TEST_F(RuntimeTest, LastErrorIsTheThreadsOwn) {
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
  aclrtFree(nullptr);
  in_other_thread([] { EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS); });
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM) << "a success does not clear it";
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
}

TEST(Misc, VersionAndNames) {
  int32_t version[3] = {};
  ASSERT_EQ(aclrtGetVersion(&version[0], &version[1], &version[2]), ACL_SUCCESS);
  EXPECT_EQ(version[0], ACL_MAJOR_VERSION);
  EXPECT_EQ(version[1], ACL_MINOR_VERSION);
  EXPECT_EQ(version[2], ACL_PATCH_VERSION);
  EXPECT_EQ(aclrtGetVersion(nullptr, &version[1], &version[2]), ACL_ERROR_INVALID_PARAM);
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910B1");
  aclrtRunMode mode = ACL_DEVICE;
  EXPECT_EQ(aclrtGetRunMode(&mode), ACL_SUCCESS);
  EXPECT_EQ(mode, ACL_HOST);
}

TEST(Misc, Platform) {
  const op::PlatformInfo& platform = op::GetCurrentPlatformInfo();
  EXPECT_EQ(platform.GetSocLongVersion(), aclrtGetSocName());
  EXPECT_EQ(platform.GetSocVersion(), op::SocVersion::ASCEND910B);
  int64_t cores = 0;
  ASSERT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &cores), ACL_SUCCESS);
  EXPECT_EQ(platform.GetCubeCoreNum(), cores);
  ASSERT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &cores), ACL_SUCCESS);
  EXPECT_EQ(platform.GetVectorCoreNum(), cores);

  const std::pair<const char*, op::SocVersion> known[] = {
      {"Ascend910A", op::SocVersion::ASCEND910},        {"Ascend910_9392", op::SocVersion::ASCEND910_93},
      {"Ascend910_9599", op::SocVersion::ASCEND910_95}, {"Ascend310", op::SocVersion::ASCEND310},
      {"Ascend310P3", op::SocVersion::ASCEND310P},      {"Ascend310B1", op::SocVersion::ASCEND310B},
      {"another", op::SocVersion::RESERVED_VERSION},
  };
  for (const auto& [name, version] : known) EXPECT_EQ(op::SocVersionOf(name), version) << name;
}

TEST(Misc, DataTypeSizes) {
  struct {
    aclDataType type;
    size_t size;
  } const cases[] = {
      {ACL_DT_UNDEFINED, 0}, {ACL_STRING, 0},   {ACL_INT8, 1},    {ACL_BOOL, 1},        {ACL_UINT1, 1},
      {ACL_INT4, 1},         {ACL_BF16, 2},     {ACL_FLOAT16, 2}, {ACL_INT16, 2},       {ACL_FLOAT, 4},
      {ACL_COMPLEX32, 4},    {ACL_DOUBLE, 8},   {ACL_INT64, 8},   {ACL_COMPLEX64, 8},   {ACL_COMPLEX128, 16},
      {ACL_FLOAT8_E5M2, 1},  {ACL_HIFLOAT8, 1}, {ACL_UINT32, 4},  {ACL_FLOAT4_E2M1, 8}, {ACL_FLOAT6_E3M2, 8},
  };
  for (const auto& [type, size] : cases) EXPECT_EQ(aclDataTypeSize(type), size) << type;
}

// Which tests/tensor/ compares with their definition.
TEST(Misc, Float16HasTheConversionsOfTheLibrary) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<aclFloat16>(bits);
    const float value = aclFloat16ToFloat(half);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(to_float(Half{half})));
    const float between = std::nextafter(value, 0.0f) * 1.0003f;
    ASSERT_EQ(aclFloatToFloat16(between), from_float<Half>(between).bits);
  }
}

TEST(Legacy, DataBuffers) {
  int data = 0;
  aclDataBuffer* buffer = aclCreateDataBuffer(&data, sizeof data);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(aclGetDataBufferAddr(buffer), &data);
  EXPECT_EQ(aclGetDataBufferSizeV2(buffer), sizeof data);
  EXPECT_EQ(aclDestroyDataBuffer(buffer), ACL_SUCCESS);
  EXPECT_EQ(aclDestroyDataBuffer(buffer), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclDestroyDataBuffer(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclGetDataBufferAddr(nullptr), nullptr);
  EXPECT_EQ(aclGetDataBufferSizeV2(nullptr), 0u);
}

TEST(Legacy, TensorDescs) {
  const int64_t dims[] = {2, 3};
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT16, 2, dims, ACL_FORMAT_ND);
  ASSERT_NE(desc, nullptr);
  EXPECT_EQ(aclGetTensorDescType(desc), ACL_FLOAT16);
  EXPECT_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescElementCount(desc), 6u);
  EXPECT_EQ(aclGetTensorDescSize(desc), 12u);
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 2u);
  int64_t size = 0;
  EXPECT_EQ(aclGetTensorDescDimV2(desc, 1, &size), ACL_SUCCESS);
  EXPECT_EQ(size, 3);
  EXPECT_EQ(aclGetTensorDescDimV2(desc, 2, &size), ACL_ERROR_INVALID_PARAM);
  aclDestroyTensorDesc(desc);
  aclDestroyTensorDesc(desc);
  aclDestroyTensorDesc(nullptr);
  EXPECT_EQ(aclGetTensorDescType(nullptr), ACL_DT_UNDEFINED);
  EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, 1, nullptr, ACL_FORMAT_ND), nullptr);
  EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, -1, dims, ACL_FORMAT_ND), nullptr);
  aclTensorDesc* scalar = aclCreateTensorDesc(ACL_FLOAT, 0, nullptr, ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescElementCount(scalar), 1u);
  aclDestroyTensorDesc(scalar);
}

TEST(Legacy, SizesWhoseProductDoesNotFitHaveNone) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  struct Case {
    std::vector<int64_t> dims;
    size_t count;
    size_t bytes;
  };
  for (const auto& [dims, count, bytes] :
       {Case{{kLarge, kLarge}, 0, 0}, Case{{INT64_MAX, 4, -1}, 0, 0}, Case{{2, -1}, 0, 0},
        Case{{kLarge, kLarge / 2}, size_t{1} << 63, 0},
        Case{{kLarge, kLarge / 8}, size_t{1} << 61, size_t{1} << 63}}) {
    aclTensorDesc* desc =
        aclCreateTensorDesc(ACL_FLOAT, static_cast<int>(dims.size()), dims.data(), ACL_FORMAT_ND);
    recent_message();
    EXPECT_EQ(aclGetTensorDescElementCount(desc), count);
    EXPECT_EQ(recent_message().empty(), count > 0);
    EXPECT_EQ(aclGetTensorDescSize(desc), bytes);
    EXPECT_EQ(recent_message().empty(), bytes > 0);
    aclDestroyTensorDesc(desc);
  }
}

TEST(Legacy, OperatorsByNameAreRefused) {
  recent_message();
  EXPECT_EQ(aclopSetModelDir("models"), ACL_ERROR_FEATURE_UNSUPPORTED);
  EXPECT_THAT(recent_message(), HasSubstr("not supported"));
  aclopAttr* attributes = aclopCreateAttr();
  EXPECT_EQ(aclopExecuteV2("Add", 0, nullptr, nullptr, 0, nullptr, nullptr, attributes, nullptr),
            ACL_ERROR_FEATURE_UNSUPPORTED);
  EXPECT_EQ(aclopCompileAndExecute("Add", 0, nullptr, nullptr, 0, nullptr, nullptr, attributes,
                                   ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, nullptr),
            ACL_ERROR_FEATURE_UNSUPPORTED);
  EXPECT_EQ(aclopCompileAndExecuteV2("Add", 0, nullptr, nullptr, 0, nullptr, nullptr, attributes,
                                     ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, nullptr),
            ACL_ERROR_FEATURE_UNSUPPORTED);
  aclopDestroyAttr(attributes);
}

TEST(Hccl, OneDeviceOnly) {
  int32_t devices[] = {0, 1};
  HcclComm communicators[2] = {};
  EXPECT_EQ(HcclCommInitAll(2, devices, communicators), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(HcclCommInitAll(0, devices, communicators), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitAll(1, nullptr, communicators), HCCL_E_PTR);
  int32_t missing[] = {1 << 20};
  EXPECT_EQ(HcclCommInitAll(1, missing, communicators), HCCL_E_PARA);
  ASSERT_EQ(HcclCommInitAll(1, devices, communicators), HCCL_SUCCESS);
  char name[128] = {};
  EXPECT_EQ(HcclGetCommName(communicators[0], name), HCCL_SUCCESS);
  EXPECT_STRNE(name, "");
  EXPECT_EQ(HcclCommDestroy(communicators[0]), HCCL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(communicators[0]), HCCL_E_PARA);
  EXPECT_EQ(HcclCommDestroy(nullptr), HCCL_E_PTR);
}

std::string name_of(HcclComm communicator) {
  char name[128] = {};
  EXPECT_EQ(HcclGetCommName(communicator, name), HCCL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(communicator), HCCL_SUCCESS);
  return name;
}

constexpr std::string_view kOneDevice = R"({"version": "1.0", "server_count": "1", "status": "completed",
  "server_list": [{"server_id": "10.0.0.1", "device": [{"device_id": "3", "rank_id": "0"}]}]})";
constexpr std::string_view kTwoDevices = R"({"server_list": [
  {"device": [{"device_id": "0", "rank_id": "0"}]}, {"device": [{"device_id": "0", "rank_id": "1"}]}]})";

TEST(Hccl, RankTableOfOneDevice) {
  const TextFile table(kOneDevice);
  HcclComm communicator = nullptr;
  ASSERT_EQ(HcclCommInitClusterInfo(table.path(), 0, &communicator), HCCL_SUCCESS);
  EXPECT_EQ(name_of(communicator), "aclgrad_device_3");
  EXPECT_EQ(HcclCommInitClusterInfo(table.path(), 1, &communicator), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitClusterInfo(nullptr, 0, &communicator), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitClusterInfo(table.path(), 0, nullptr), HCCL_E_PTR);
}

TEST(Hccl, RankTablesThatAreRefused) {
  HcclComm communicator = nullptr;
  EXPECT_EQ(HcclCommInitClusterInfo(TextFile(kTwoDevices).path(), 0, &communicator), HCCL_E_NOT_SUPPORT);
  const std::string deep = R"({"server_list": [{"device": [{"device_id": )" + nested_lists(200000) + "}]}]}";
  for (const std::string_view wrong :
       {"", "{", "[]", "3", "{}", R"({"server_list": []})", R"({"server_list": [3]})",
        R"({"server_list": 3})", R"({"server_list": [{"device": []}]})", deep.c_str()}) {
    EXPECT_EQ(HcclCommInitClusterInfo(TextFile(wrong).path(), 0, &communicator), HCCL_E_PARA)
        << wrong.substr(0, 99);
  }
  recent_message();
  EXPECT_EQ(HcclCommInitClusterInfo("/nowhere/table.json", 0, &communicator), HCCL_E_OPEN_FILE_FAILURE);
  EXPECT_THAT(recent_message(),
              HasSubstr("HcclCommInitClusterInfo.clusterInfo: expected a readable file, got "
                        "/nowhere/table.json."));
  EXPECT_EQ(HcclCommInitClusterInfo("/", 0, &communicator), HCCL_E_OPEN_FILE_FAILURE);
  EXPECT_EQ(communicator, nullptr);
}

TEST(Hccl, SettingsNameTheCommunicator) {
  const TextFile table(kOneDevice);
  HcclRootInfo root;
  ASSERT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  using Init = std::function<HcclResult(HcclCommConfig*, HcclComm*)>;
  const std::pair<Init, const char*> inits[] = {
      {[&](auto* config, auto* made) { return HcclCommInitClusterInfoConfig(table.path(), 0, config, made); },
       "aclgrad_device_3"},
      {[&](auto* config, auto* made) { return HcclCommInitRootInfoConfig(1, &root, 0, config, made); },
       "aclgrad_root"}};
  HcclCommConfigInit(nullptr);
  for (const auto& [init, default_name] : inits) {
    SCOPED_TRACE(default_name);
    HcclCommConfig config;
    std::memset(&config, 0, sizeof config);
    HcclComm communicator = nullptr;
    EXPECT_EQ(init(&config, &communicator), HCCL_E_PARA) << "not initialised";
    HcclCommConfigInit(&config);
    EXPECT_EQ(config.hcclBufferSize, 200u);
    ASSERT_EQ(init(&config, &communicator), HCCL_SUCCESS);
    EXPECT_EQ(name_of(communicator), default_name);
    std::strcpy(config.hcclCommName, "mine");
    ASSERT_EQ(init(&config, &communicator), HCCL_SUCCESS);
    EXPECT_EQ(name_of(communicator), "mine");
    communicator = nullptr;
    std::memset(config.hcclCommName, 'x', sizeof config.hcclCommName);
    EXPECT_EQ(init(&config, &communicator), HCCL_E_PARA);
    EXPECT_EQ(init(nullptr, &communicator), HCCL_E_PTR);
    EXPECT_EQ(communicator, nullptr);
  }
}

TEST(Hccl, RootInfoOfOneRank) {
  EXPECT_EQ(HcclGetRootInfo(nullptr), HCCL_E_PTR);
  HcclRootInfo root;
  ASSERT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  HcclComm communicator = nullptr;
  ASSERT_EQ(HcclCommInitRootInfo(1, &root, 0, &communicator), HCCL_SUCCESS);
  EXPECT_EQ(name_of(communicator), "aclgrad_root");
  communicator = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(1, nullptr, 0, &communicator), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, nullptr), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(0, &root, 0, &communicator), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 1, &communicator), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(2, &root, 0, &communicator), HCCL_E_NOT_SUPPORT);
  recent_message();
  std::memset(&root, 'x', sizeof root);
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, &communicator), HCCL_E_PARA);
  EXPECT_THAT(recent_message(),
              HasSubstr("HcclCommInitRootInfo.rootInfo: expected what HcclGetRootInfo has written"));
  EXPECT_EQ(communicator, nullptr);
}

TEST(Hccl, ResourcesOfKernelsThatCommunicateAreRefused) {
  void* resource = nullptr;
  aclrtStream stream = nullptr;
  recent_message();
  EXPECT_EQ(HcclCreateComResource("name", 0, &resource), HCCL_E_NOT_SUPPORT);
  EXPECT_THAT(recent_message(), HasSubstr("HcclCreateComResource is not supported."));
  EXPECT_EQ(HcclAllocComResourceByTiling(nullptr, nullptr, nullptr, &resource), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(HcclGetAicpuOpStreamNotify("name", &stream, &resource), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(resource, nullptr);
}

}  // namespace
}  // namespace aclgrad
