// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of executors, and both phases of each operator.
#include <algorithm>
#include <map>

#include "acl/acl.h"
#include "aclnnop/aclnn_grid_sampler2d.h"
#include "aclnnop/aclnn_grid_sampler2d_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "calls.h"
#include "check/check.h"
#include "support/operator.h"

namespace aclgrad::fuzz {
namespace {

constexpr int64_t kMaxElements = 1 << 12;  // of a tensor in a problem that is run

// ---- Executors ----

enum class Counted { all, inputs, outputs };

template <auto kSet>
void set_address(Program& program, Counted counted) {
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  auto* tensor = program.handle<aclTensor>(Kind::tensor);
  const auto index = static_cast<size_t>(program.integer());
  void* to = program.address(program.draw<size_t>(0, kMaxAllocation));
  if (!program.succeeded(kSet(executor, index, tensor, to))) return;
  Plan& plan = program.plans[executor];
  Argument& argument = plan.arguments.at(index + (counted == Counted::outputs ? plan.inputs : 0));
  require(argument.given, "an argument that was not given has no address");
  argument.address = to;
}

template <auto kSet>
void set_dynamic_address(Program& program) {
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  auto* list = program.handle<aclTensorList>(Kind::tensor_list);
  const auto index = static_cast<size_t>(program.integer());
  program.refused_if(true);  // no operator takes a list
  program.succeeded(kSet(executor, index, static_cast<size_t>(program.integer()), list, program.address(8)));
}

const Call kExecutors[] = {
    {"aclSetAclOpExecutorRepeatable",
     [](Program& program) {
       auto* executor = program.handle<aclOpExecutor>(Kind::executor);
       if (program.succeeded(aclSetAclOpExecutorRepeatable(executor)))
         program.plans[executor].repeatable = true;
     }},
    {"aclDestroyAclOpExecutor",
     [](Program& program) {
       auto* executor = program.handle<aclOpExecutor>(Kind::executor);
       if (program.succeeded(aclDestroyAclOpExecutor(executor))) program.remove(Kind::executor, executor);
     }},
    {"aclSetTensorAddr", [](Program& program) { set_address<aclSetTensorAddr>(program, Counted::all); }},
    {"aclSetInputTensorAddr",
     [](Program& program) { set_address<aclSetInputTensorAddr>(program, Counted::inputs); }},
    {"aclSetOutputTensorAddr",
     [](Program& program) { set_address<aclSetOutputTensorAddr>(program, Counted::outputs); }},
    {"AclSetTensorAddr", [](Program& program) { set_address<AclSetTensorAddr>(program, Counted::all); }},
    {"AclSetInputTensorAddr",
     [](Program& program) { set_address<AclSetInputTensorAddr>(program, Counted::inputs); }},
    {"AclSetOutputTensorAddr",
     [](Program& program) { set_address<AclSetOutputTensorAddr>(program, Counted::outputs); }},
    {"aclSetDynamicTensorAddr", set_dynamic_address<aclSetDynamicTensorAddr>},
    {"aclSetDynamicInputTensorAddr", set_dynamic_address<aclSetDynamicInputTensorAddr>},
    {"aclSetDynamicOutputTensorAddr", set_dynamic_address<aclSetDynamicOutputTensorAddr>},
    {"AclSetDynamicTensorAddr", set_dynamic_address<AclSetDynamicTensorAddr>},
    {"AclSetDynamicInputTensorAddr", set_dynamic_address<AclSetDynamicInputTensorAddr>},
    {"AclSetDynamicOutputTensorAddr", set_dynamic_address<AclSetDynamicOutputTensorAddr>},
};

// ---- Operators: phase 1 ----

// Strides of memory in which the view leaves gaps, lies transposed or repeats an element.
Shape strides_of(Program& program, const Shape& shape) {
  Shape strides = contiguous_strides(shape);
  switch (program.draw(0, 5)) {
    case 0:
      for (int64_t& stride : strides) stride = std::min(stride, Reach::kFar) * 2;
      break;
    case 1:
      strides = contiguous_strides(Shape(shape.rbegin(), shape.rend()));
      std::reverse(strides.begin(), strides.end());
      break;
    case 2:
      if (!strides.empty()) strides[program.draw<size_t>(0, strides.size() - 1)] = 0;
      break;
    default:
      break;
  }
  return strides;
}

// A tensor that is right, with memory unless it is too large.
aclTensor* make_tensor(Program& program, const Shape& shape, aclDataType type) {
  View view;
  view.shape = shape;
  view.strides = strides_of(program, shape);
  view.offset = program.rarely() ? program.draw(0, 9) : 0;
  view.item_bytes = static_cast<int64_t>(aclDataTypeSize(type));
  const Reach reach = Program::reach_of(view);
  view.data = program.address(static_cast<size_t>(reach.bytes));
  const Shape storage = {program.rarely() ? program.integer() : (reach.bytes + 7) / 2};
  aclTensor* tensor = aclCreateTensor(shape.data(), shape.size(), type, view.strides.data(), view.offset,
                                      ACL_FORMAT_ND, storage.data(), program.draw(0, 1), view.data);
  require(tensor != nullptr, "a tensor can be made");
  program.add(Kind::tensor, tensor);
  program.views[tensor] = view;
  return tensor;
}

// The next argument of phase 1: mostly a tensor of that shape and type, rarely something else.
aclTensor* argument(Program& program, Plan& plan, Shape shape, aclDataType type, Null null = Null::refused) {
  aclTensor* tensor = nullptr;
  switch (program.draw(0, 40)) {
    case 40:
      tensor = program.handle<aclTensor>(Kind::tensor, null);
      break;
    case 39:
      shape[program.draw<size_t>(0, shape.size() - 1)] = program.integer();
      tensor = make_tensor(program, shape, type);
      break;
    case 38:
      tensor = make_tensor(program, shape, program.value_of(ACL_FLOAT4_E1M2));
      break;
    default:
      tensor = make_tensor(program, shape, type);
  }
  Argument taken;
  if (program.is_live(Kind::tensor, tensor)) {
    const View& view = program.views[tensor];
    taken = {true, Program::reach_of(view), view.data};
  }
  plan.arguments.push_back(taken);
  return tensor;
}

aclTensor* optional_argument(Program& program, Plan& plan, const Shape& shape, aclDataType type, bool given) {
  if (given) return argument(program, plan, shape, type, Null::allowed);
  plan.arguments.push_back({});
  return nullptr;
}

std::string phase_1_of(const test::Operator& of) {
  return std::string(of.name) + "GetWorkspaceSize";
}

const test::Operator& planned_by(std::string_view phase_1) {
  return test::operator_named(phase_1.substr(0, phase_1.rfind("GetWorkspaceSize")));
}

template <class Phase1>
void plan_call(Program& program, Plan plan, Phase1 phase1) {
  plan.operator_name = planned_by(program.function()).said_name;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  uint64_t* size_at = program.out(size);
  const bool planned = program.succeeded(phase1(size_at, program.out(executor)));
  require(planned == (executor != nullptr), "there is an executor where phase 1 succeeds, and only there");
  if (!planned) return;
  plan.workspace_size = size;
  program.add(Kind::executor, executor);
  program.plans[executor] = plan;
}

aclDataType float_type(Program& program) {
  return program.one_of({ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
}

aclDataType index_type(Program& program) {
  return program.coin() ? ACL_INT32 : ACL_INT64;
}

int64_t mode(Program& program, int64_t last) {
  return program.rarely() ? program.integer() : program.draw<int64_t>(0, last);
}

template <class Phase1>
void plan_grouped_bias(Program& program, Phase1 phase1) {
  const aclDataType type = float_type(program);
  const auto groups = program.draw<int64_t>(0, 6);
  const auto rows = program.draw<int64_t>(0, 20);
  const auto columns = program.draw<int64_t>(0, 20);
  const bool grouped = program.coin();
  Plan plan;
  aclTensor* grad_y =
      argument(program, plan, grouped ? Shape{rows, columns} : Shape{groups, rows, columns}, type);
  aclTensor* group_idx = optional_argument(program, plan, {groups}, index_type(program), grouped);
  plan.inputs = plan.arguments.size();
  aclTensor* out = argument(program, plan, {groups, columns}, type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return phase1(grad_y, group_idx, out, size, executor);
  });
}

struct GridSizes {
  aclDataType type;
  Shape input, grid, output;
};

GridSizes grid_sizes(Program& program) {
  GridSizes sizes;
  sizes.type = program.one_of({ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE});
  const auto batch = program.draw<int64_t>(0, 2);
  const auto channels = program.draw<int64_t>(0, 9);
  sizes.input = {batch, channels, program.draw<int64_t>(0, 6), program.draw<int64_t>(0, 6)};
  sizes.grid = {batch, program.draw<int64_t>(0, 4), program.draw<int64_t>(0, 4), 2};
  sizes.output = {batch, channels, sizes.grid[1], sizes.grid[2]};
  return sizes;
}

void plan_grid_sampler(Program& program) {
  const GridSizes sizes = grid_sizes(program);
  Plan plan;
  aclTensor* input = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid = argument(program, plan, sizes.grid, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* out = argument(program, plan, sizes.output, sizes.type);
  const int64_t interpolation = mode(program, 2);
  const int64_t padding = mode(program, 2);
  const bool align_corners = program.coin();
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnGridSampler2DGetWorkspaceSize(input, grid, interpolation, padding, align_corners, out, size,
                                              executor);
  });
}

aclBoolArray* output_mask(Program& program) {
  if (program.rarely()) return program.handle<aclBoolArray>(Kind::bool_array, Null::allowed);
  const bool wanted[] = {program.coin(), program.coin()};
  aclBoolArray* mask = aclCreateBoolArray(wanted, 2);
  require(mask != nullptr, "a mask can be made");
  program.add(Kind::bool_array, mask);
  return mask;
}

void plan_grid_sampler_backward(Program& program) {
  const GridSizes sizes = grid_sizes(program);
  Plan plan;
  aclTensor* grad_output = argument(program, plan, sizes.output, sizes.type);
  aclTensor* input = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid = argument(program, plan, sizes.grid, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* input_grad = argument(program, plan, sizes.input, sizes.type);
  aclTensor* grid_grad = argument(program, plan, sizes.grid, sizes.type);
  const int64_t interpolation = mode(program, 2);
  const int64_t padding = mode(program, 2);
  const bool align_corners = program.coin();
  const aclBoolArray* mask = output_mask(program);
  if (mask == nullptr) {  // nothing is asked for, and nothing else looked at
    program.nothing_is_wrong();
    plan = {};
  }
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnGridSampler2DBackwardGetWorkspaceSize(grad_output, input, grid, interpolation, padding,
                                                      align_corners, mask, input_grad, grid_grad, size,
                                                      executor);
  });
}

struct NsaSizes {
  aclDataType type;
  int64_t block, stride;
  Shape rows, weight, compressed;
  std::vector<int64_t> ends;
};

NsaSizes nsa_sizes(Program& program) {
  NsaSizes sizes;
  sizes.type = program.coin() ? ACL_FLOAT16 : ACL_BF16;
  sizes.stride = 16 * program.draw<int64_t>(1, 2);
  sizes.block = sizes.stride + 16 * program.draw<int64_t>(0, 2);
  int64_t tokens = 0;
  int64_t windows = 0;
  for (int64_t i = program.draw<int64_t>(1, 3); i > 0; --i) {
    const auto length = program.draw<int64_t>(0, 80);
    tokens += length;
    windows += length >= sizes.block ? (length - sizes.block) / sizes.stride + 1 : 0;
    sizes.ends.push_back(tokens);
  }
  const auto heads = program.draw<int64_t>(1, 2);
  const int64_t channels = 16;
  sizes.rows = {tokens, heads, channels};
  sizes.weight = {sizes.block, heads};
  sizes.compressed = {windows, heads, channels};
  if (program.rarely()) sizes.block = program.integer();
  if (program.rarely()) sizes.stride = program.integer();
  if (program.rarely()) sizes.ends = program.integers(program.draw<size_t>(0, 5));
  return sizes;
}

aclIntArray* sequence_ends(Program& program, const std::vector<int64_t>& ends, Null null) {
  if (program.rarely()) return program.handle<aclIntArray>(Kind::int_array, null);
  aclIntArray* array = aclCreateIntArray(ends.data(), ends.size());
  require(array != nullptr, "an array can be made");
  program.add(Kind::int_array, array);
  return array;
}

void plan_nsa_compress(Program& program) {
  const NsaSizes sizes = nsa_sizes(program);
  Plan plan;
  aclTensor* input = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight = argument(program, plan, sizes.weight, sizes.type);
  plan.inputs = plan.arguments.size();
  aclTensor* output = argument(program, plan, sizes.compressed, sizes.type);
  const aclIntArray* ends = sequence_ends(program, sizes.ends, Null::refused);
  std::string layout = program.rarely() ? program.text() : "TND";
  const int64_t kind = mode(program, 0);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnNsaCompressGetWorkspaceSize(input, weight, ends, layout.data(), sizes.block, sizes.stride,
                                            kind, output, size, executor);
  });
}

enum class Ends { on_host, on_device };

void plan_nsa_compress_grad(Program& program, Ends where) {
  const NsaSizes sizes = nsa_sizes(program);
  const bool on_device = where == Ends::on_device;
  Plan plan;
  aclTensor* output_grad = argument(program, plan, sizes.compressed, sizes.type);
  aclTensor* input = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight = argument(program, plan, sizes.weight, sizes.type);
  const Shape ends_shape = {static_cast<int64_t>(sizes.ends.size())};
  aclTensor* ends_tensor = optional_argument(program, plan, ends_shape, ACL_INT64, on_device);
  plan.inputs = plan.arguments.size();
  aclTensor* input_grad = argument(program, plan, sizes.rows, sizes.type);
  aclTensor* weight_grad = argument(program, plan, sizes.weight, sizes.type);
  const aclIntArray* ends = on_device ? nullptr : sequence_ends(program, sizes.ends, Null::allowed);
  std::string text = program.rarely() ? program.text() : "TND";
  char* layout = program.rarely() ? nullptr : text.data();
  const int64_t kind = mode(program, 0);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return on_device ? aclnnNsaCompressGradTensorGetWorkspaceSize(output_grad, input, weight, ends_tensor,
                                                                  sizes.block, sizes.stride, kind, layout,
                                                                  input_grad, weight_grad, size, executor)
                     : aclnnNsaCompressGradGetWorkspaceSize(output_grad, input, weight, ends, sizes.block,
                                                            sizes.stride, kind, layout, input_grad,
                                                            weight_grad, size, executor);
  });
}

// The tensors that deformable attention and its gradient share.
struct Attention {
  aclDataType type;
  Shape value, location, weight, query;
  aclTensor* value_tensor;
  aclTensor* spatial_shape;
  aclTensor* level_start;
  aclTensor* location_tensor;
  aclTensor* weight_tensor;

  Attention(Program& program, Plan& plan) : type(float_type(program)) {
    const auto batches = program.draw<int64_t>(0, 2);
    const auto heads = program.draw<int64_t>(0, 3);
    const int64_t channels = 8 * program.draw<int64_t>(0, 2);
    const auto queries = program.draw<int64_t>(0, 4);
    const auto levels = program.draw<int64_t>(0, 3);
    const auto points = program.draw<int64_t>(0, 3);
    value = {batches, program.draw<int64_t>(0, 20), heads, channels};
    location = {batches, queries, heads, levels, points, 2};
    weight = {batches, queries, heads, levels, points};
    query =
        program.coin() ? Shape{batches, queries, heads * channels} : Shape{batches, queries, heads, channels};
    value_tensor = argument(program, plan, value, type);
    spatial_shape = argument(program, plan, {levels, 2}, index_type(program));
    level_start = argument(program, plan, {levels}, index_type(program));
    location_tensor = argument(program, plan, location, type);
    weight_tensor = argument(program, plan, weight, type);
  }
};

void plan_attention(Program& program) {
  Plan plan;
  const Attention in(program, plan);
  plan.inputs = plan.arguments.size();
  aclTensor* output = argument(program, plan, in.query, in.type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(in.value_tensor, in.spatial_shape,
                                                                 in.level_start, in.location_tensor,
                                                                 in.weight_tensor, output, size, executor);
  });
}

void plan_attention_grad(Program& program) {
  Plan plan;
  const Attention in(program, plan);
  aclTensor* grad_output = argument(program, plan, in.query, in.type);
  plan.inputs = plan.arguments.size();
  aclTensor* grad_value = argument(program, plan, in.value, in.type);
  aclTensor* grad_location = argument(program, plan, in.location, in.type);
  aclTensor* grad_weight = argument(program, plan, in.weight, in.type);
  plan_call(program, plan, [&](uint64_t* size, aclOpExecutor** executor) {
    return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
        in.value_tensor, in.spatial_shape, in.level_start, in.location_tensor, in.weight_tensor, grad_output,
        grad_value, grad_location, grad_weight, size, executor);
  });
}

// ---- Operators: phase 2 ----

// Whether the plan ends soon and stays in its memory, or the checker will refuse it.
bool may_run(const Program& program, const Plan& plan) {
  for (const Argument& argument : plan.arguments) {
    if (argument.reach.elements > kMaxElements) return false;
    if (program.fits(argument.address, argument.reach.bytes)) continue;
    if (!check::enabled || !program.is_of_library(argument.address)) return false;
  }
  return true;
}

bool meets(const Argument& argument, const void* memory, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(argument.address);
  const auto* begin = static_cast<const std::byte*>(memory);
  return first != nullptr && begin != nullptr && first < begin + bytes &&
         begin < first + argument.reach.bytes;
}

void run(Program& program, test::Phase2 phase2) {
  if (program.live(Kind::executor).empty() && !program.rarely()) {
    const char* function = program.function();
    call(program, std::string(function) + "GetWorkspaceSize");
    program.begin(function);
  }
  auto* executor = program.handle<aclOpExecutor>(Kind::executor);
  void* stream = stream_or_default(program);
  const bool live = program.is_live(Kind::executor, executor);
  const Plan plan = live ? program.plans[executor] : Plan();
  if (!may_run(program, plan)) return;
  const auto needed = static_cast<size_t>(plan.workspace_size);
  const size_t size = program.rarely() ? program.draw<size_t>(0, 2 * needed) : needed;
  void* workspace = program.address(size + 1);
  if (workspace != nullptr) workspace = static_cast<std::byte*>(workspace) + program.draw(0, 1);
  for (const Argument& argument : plan.arguments) {
    if (meets(argument, workspace, size)) return;
  }
  const bool foreign = live && plan.operator_name != program.function();
  program.refused_if(foreign || (needed > 0 && (workspace == nullptr || size < needed)));
  if (stream != nullptr && needed == 0 && !program.is_live(Kind::stream, stream)) {
    program.nothing_is_wrong();  // no work needs no stream
    program.refused_if(!live || foreign);
  }
  const void* user = program.user_of(stream);
  program.use(workspace, user);
  for (const Argument& argument : plan.arguments) program.use(argument.address, user);
  const Status status = phase2(workspace, size, executor, stream);
  if (!plan.repeatable && !foreign) program.remove(Kind::executor, executor);
  program.succeeded(status);
}

template <auto kPhase2>
void run(Program& program) {
  run(program, kPhase2);
}

const Call kOperators[] = {
    {"aclnnGroupedBiasAddGradGetWorkspaceSize",
     [](Program& program) { plan_grouped_bias(program, aclnnGroupedBiasAddGradGetWorkspaceSize); }},
    {"aclnnGroupedBiasAddGrad", run<aclnnGroupedBiasAddGrad>},
    {"aclnnGroupedBiasAddGradV2GetWorkspaceSize",
     [](Program& program) {
       const int64_t kind = mode(program, 1);
       plan_grouped_bias(program, [&](const aclTensor* grad_y, const aclTensor* group_idx, aclTensor* out,
                                      uint64_t* size, aclOpExecutor** executor) {
         return aclnnGroupedBiasAddGradV2GetWorkspaceSize(grad_y, group_idx, kind, out, size, executor);
       });
     }},
    {"aclnnGroupedBiasAddGradV2", run<aclnnGroupedBiasAddGradV2>},
    {"aclnnGridSampler2DGetWorkspaceSize", plan_grid_sampler},
    {"aclnnGridSampler2D", run<aclnnGridSampler2D>},
    {"aclnnGridSampler2DBackwardGetWorkspaceSize", plan_grid_sampler_backward},
    {"aclnnGridSampler2DBackward", run<aclnnGridSampler2DBackward>},
    {"aclnnNsaCompressGetWorkspaceSize", plan_nsa_compress},
    {"aclnnNsaCompress", run<aclnnNsaCompress>},
    {"aclnnNsaCompressGradGetWorkspaceSize",
     [](Program& program) { plan_nsa_compress_grad(program, Ends::on_host); }},
    {"aclnnNsaCompressGradTensorGetWorkspaceSize",
     [](Program& program) { plan_nsa_compress_grad(program, Ends::on_device); }},
    {"aclnnNsaCompressGrad", run<aclnnNsaCompressGrad>},
    {"aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize", plan_attention},
    {"aclnnMultiScaleDeformableAttnFunction", run<aclnnMultiScaleDeformableAttnFunction>},
    {"aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize", plan_attention_grad},
    {"aclnnMultiScaleDeformableAttentionGrad", run<aclnnMultiScaleDeformableAttentionGrad>},
};

// ---- Operators as they describe themselves ----

// A case with tensors that are small enough to run.
const std::vector<test::Value>& small_case(Program& program, const test::Operator& of) {
  static std::map<const test::Operator*, std::vector<std::vector<test::Value>>> all;
  std::vector<std::vector<test::Value>>& small = all[&of];
  if (small.empty()) {
    for (DataType type : of.types) {
      for (test::Case& one : of.cases(type)) {
        const bool is_small =
            std::all_of(one.arguments.begin(), one.arguments.end(), [](const test::Value& value) {
              const auto* tensor = std::get_if<test::TensorValue>(&value);
              return tensor == nullptr || test::element_count(tensor->shape) <= kMaxElements;
            });
        if (is_small) small.push_back(std::move(one.arguments));
      }
    }
  }
  return small[program.draw<size_t>(0, small.size() - 1)];
}

template <class Array>
test::CArgument array_argument(Program& program, Kind kind, Array* array) {
  require(array != nullptr, "an array can be made");
  program.add(kind, array);
  return {.handle = program.rarely() ? program.handle<Array>(kind, Null::allowed) : array};
}

// An argument as described, or rarely something else.
test::CArgument described_argument(Program& program, Plan& plan, const test::Value& value, test::Role role) {
  if (const auto* tensor = std::get_if<test::TensorValue>(&value)) {
    const bool is_needed = role == test::Role::input || role == test::Role::output;
    return {.handle = argument(program, plan, tensor->shape, static_cast<aclDataType>(tensor->type),
                               is_needed ? Null::refused : Null::allowed)};
  }
  if (role == test::Role::optional_input) plan.arguments.push_back({});
  if (const auto* number = std::get_if<int64_t>(&value))
    return {.number = program.rarely() ? program.integer() : *number};
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
    return array_argument(program, Kind::int_array, aclCreateIntArray(integers->data(), integers->size()));
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    const auto values = std::make_unique<bool[]>(flags->size());
    std::copy(flags->begin(), flags->end(), values.get());
    return array_argument(program, Kind::bool_array, aclCreateBoolArray(values.get(), flags->size()));
  }
  if (const auto* text = std::get_if<std::string>(&value))
    return {.handle = const_cast<char*>(text->c_str())};
  return {};
}

void plan_described(Program& program) {
  const test::Operator& of = planned_by(program.function());
  const std::vector<test::Value>& values = small_case(program, of);
  const size_t first_output = of.indices_of(test::Role::output).front();
  Plan plan;
  test::CArguments arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == first_output) plan.inputs = plan.arguments.size();
    arguments.push_back(described_argument(program, plan, values[i], of.parameters[i].role));
  }
  plan_call(program, plan,
            [&](uint64_t* size, aclOpExecutor** executor) { return of.phase1(arguments, size, executor); });
}

void run_described(Program& program) {
  run(program, test::operator_named(program.function()).phase2);
}

}  // namespace

Calls executor_calls() {
  return kExecutors;
}
Calls operator_calls() {
  return kOperators;
}
Calls described_calls() {
  static const std::vector<Call> calls = [] {
    std::vector<Call> made;
    // Which the calls refer to; never destroyed, as the counts are printed at exit.
    static auto& names = *new std::vector<std::string>(2 * test::operators().size());
    auto name = names.begin();
    for (const test::Operator& of : test::operators()) {
      const std::string phase_1 = phase_1_of(of);
      if (std::any_of(std::begin(kOperators), std::end(kOperators),
                      [&](const Call& c) { return c.name == phase_1; }))
        continue;
      made.push_back({(*name++ = phase_1).c_str(), plan_described});
      if (of.said_name == of.name) made.push_back({(*name++ = of.name).c_str(), run_described});
    }
    return made;
  }();
  return calls;
}

}  // namespace aclgrad::fuzz
