// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "operations.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "arithmetic.h"
#include "base/data_type.h"
#include "findings.h"
#include "grid.h"
#include "warp.h"

namespace ptx {
namespace {

using aclgrad::BFloat16;
using aclgrad::Half;

// ---- From functions of one lane to instructions

template <class T>
constexpr uint8_t kWidth = std::is_same_v<T, bool> ? kPredicateBytes : sizeof(T);

// In all lanes, also in those that do not count, and so without a branch.
template <class To, class... From, class Function, size_t... kIndex>
void compute(Warp& warp, const Instruction& in, Lanes active, Function function,
             std::index_sequence<kIndex...>) {
  const Lanes defined = (warp.defined(in.from[kIndex]) & ...);
  const auto compute_from = [&](const auto*... from) {
    To result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = function(from[lane]...);
    if constexpr (std::is_same_v<To, bool>) {
      Lanes values = 0;
      for (int lane = 0; lane < kLanes; ++lane) values |= static_cast<Lanes>(result[lane]) << lane;
      warp.assign_predicate(in.to[0], values, active, defined);
    } else {
      warp.assign(in.to[0], result, active, defined);
    }
  };
  compute_from(static_cast<const From*>(warp.lanes<From>(in.from[kIndex]))...);
}

template <class To, class... From, class Function>
Operation operation(Function) {
  const Run run = [](Warp& warp, const Instruction& in, Lanes active) {
    compute<To, From...>(warp, in, active, Function{}, std::index_sequence_for<From...>{});
  };
  return {run, kWidth<To>, {kWidth<From>...}};
}

template <class T>
uint64_t widened(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(
        static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint16_t>(value);
  }
}

// As operation(), also from and to registers that are wider than the types.
template <class To, class From, class Function>
Operation conversion(Function function) {
  Operation result = operation<To, From>(function);
  result.run_any_width = [](Warp& warp, const Instruction& in, Lanes active) {
    for_each_lane(active, [&](int lane) {
      From from;
      const uint64_t bits = warp.value(in.from[0], lane);
      std::memcpy(&from, &bits, sizeof from);
      warp.set_value(in.to[0], lane, widened<To>(Function{}(from)));
    });
    warp.mark(in.to[0], active, warp.defined(in.from[0]));
  };
  return result;
}

// ---- Instructions that are more than a function of each lane

template <class T>
void select(Warp& warp, const Instruction& in, Lanes active) {
  const T *one = warp.lanes<T>(in.from[0]), *other = warp.lanes<T>(in.from[1]);
  const Lanes first = warp.predicate(in.from[2]);
  const Lanes defined = (first & warp.defined(in.from[0])) | (~first & warp.defined(in.from[1]));
  T result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = (first >> lane & 1) != 0 ? one[lane] : other[lane];
  warp.assign(in.to[0], result, active, defined & warp.defined(in.from[2]));
}

// What one operand alone decides is defined though the other one is not.
template <bool kIsOr>
void combine(Warp& warp, const Instruction& in, Lanes active) {
  const Lanes a = warp.predicate(in.from[0]), b = warp.predicate(in.from[1]);
  const Lanes a_defined = warp.defined(in.from[0]), b_defined = warp.defined(in.from[1]);
  const Lanes decides_a = kIsOr ? a : ~a, decides_b = kIsOr ? b : ~b;
  warp.assign_predicate(in.to[0], kIsOr ? a | b : a & b, active,
                        (a_defined & b_defined) | (a_defined & decides_a) | (b_defined & decides_b));
}

void exclusive_or(Warp& warp, const Instruction& in, Lanes active) {
  warp.assign_predicate(in.to[0], warp.predicate(in.from[0]) ^ warp.predicate(in.from[1]), active,
                        warp.defined(in.from[0]) & warp.defined(in.from[1]));
}

void invert(Warp& warp, const Instruction& in, Lanes active) {
  warp.assign_predicate(in.to[0], ~warp.predicate(in.from[0]), active, warp.defined(in.from[0]));
}

void move_predicate(Warp& warp, const Instruction& in, Lanes active) {
  warp.assign_predicate(in.to[0], warp.predicate(in.from[0]), active, warp.defined(in.from[0]));
}

// a + b, or a - b as a + ~b + 1, with the carry of the instruction before or without, in 64 bits.
template <bool kSubtracts, bool kTakesCarry>
void add_with_carry(Warp& warp, const Instruction& in, Lanes active) {
  const auto *a = warp.lanes<uint64_t>(in.from[0]), *b = warp.lanes<uint64_t>(in.from[1]);
  const Lanes before = kTakesCarry ? warp.carry : 0;
  Lanes defined = warp.defined(in.from[0]) & warp.defined(in.from[1]);
  if (kTakesCarry) defined &= warp.carry_defined;
  uint64_t result[kLanes];
  Lanes after = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const unsigned carry = before >> lane & 1u;
    const unsigned __int128 sum = kSubtracts ? static_cast<unsigned __int128>(a[lane]) - b[lane] - carry
                                             : static_cast<unsigned __int128>(a[lane]) + b[lane] + carry;
    result[lane] = static_cast<uint64_t>(sum);
    after |= static_cast<Lanes>(sum >> 64 & 1) << lane;
  }
  warp.assign(in.to[0], result, active, defined);
  warp.carry = (warp.carry & ~active) | (after & active);
  warp.carry_defined = (warp.carry_defined & ~active) | (defined & active);
}

// shfl.sync.bfly, .idx: to|predicate, from, distance or lane in the segment, bounds, mask. Lanes whose partner is out of
// bounds keep their own.
template <bool kIndexed>
void exchange(Warp& warp, const Instruction& in, Lanes active) {
  uint32_t result[kLanes] = {};
  Lanes defined = 0, in_bounds = 0;
  for_each_lane(active, [&](int lane) {
    const auto number = static_cast<int>(warp.value(in.from[1], lane) & 31);
    const auto bounds = static_cast<int>(warp.value(in.from[2], lane));
    const int segment = bounds >> 8 & 31;
    const int last = (lane & segment) | ((bounds & 31) & ~segment);
    const int wanted = kIndexed ? (lane & segment) | (number & ~segment) : lane ^ number;
    if (wanted <= last) in_bounds |= one_lane(lane);
    const int partner = wanted <= last ? wanted : lane;
    const bool is_there = (active >> partner & 1) != 0;
    if (!is_there) report("a shuffle from lane " + std::to_string(partner) + ", which is not there");
    result[lane] = warp.lanes<uint32_t>(in.from[0])[partner];
    if (is_there && (warp.defined(in.from[0]) >> partner & 1) != 0) defined |= one_lane(lane);
  });
  warp.assign(in.to[0], result, active, defined);
  if (in.to.size() > 1) warp.assign_predicate(in.to[1], in_bounds, active, kAllLanes);
}

// match.any.sync: of the lanes that a lane's mask names, those with the same value.
void match(Warp& warp, const Instruction& in, Lanes active) {
  const auto* values = warp.lanes<uint32_t>(in.from[0]);
  uint32_t result[kLanes] = {};
  for_each_lane(active, [&](int lane) {
    for_each_lane(active, [&](int other) {
      if (values[other] == values[lane]) result[lane] |= one_lane(other);
    });
    result[lane] &= static_cast<Lanes>(warp.value(in.from[1], lane));
  });
  const bool all_defined = (active & ~warp.defined(in.from[0])) == 0;
  warp.assign(in.to[0], result, active, all_defined ? kAllLanes : 0);
}

// vote.sync.ballot: the lanes whose predicate is true.
void vote(Warp& warp, const Instruction& in, Lanes active) {
  uint32_t result[kLanes];
  std::fill_n(result, kLanes, warp.predicate(in.from[0]) & active);
  const bool all_defined = (active & ~warp.defined(in.from[0])) == 0;
  warp.assign(in.to[0], result, active, all_defined ? kAllLanes : 0);
}

template <class T, T (*kFunction)(T, T)>
void divide(Warp& warp, const Instruction& in, Lanes active) {
  for_each_lane(active, [&](int lane) {
    if (warp.lanes<T>(in.from[1])[lane] == 0) report("a division by zero");
  });
  compute<T, T, T>(warp, in, active, kFunction, std::index_sequence<0, 1>{});
}

// ---- The table

using Table = std::unordered_map<std::string, Operation>;

template <class T>
void add_comparisons(Table& table, const std::string& type) {
  const auto add = [&](const char* name, auto function) {
    table[std::string("setp.") + name + type] = operation<bool, T, T>(function);
  };
  add("eq", [](T a, T b) { return a == b; });
  add("lt", [](T a, T b) { return a < b; });
  add("le", [](T a, T b) { return a <= b; });
  add("gt", [](T a, T b) { return a > b; });
  add("ge", [](T a, T b) { return a >= b; });
  if constexpr (std::is_integral_v<T>) {
    add("ne", [](T a, T b) { return a != b; });
  } else {  // of numbers; and those that are true of NaN, too
    add("ne", [](T a, T b) { return a < b || a > b; });
    add("num", [](T a, T b) { return a == a && b == b; });
    add("nan", [](T a, T b) { return a != a || b != b; });
    add("equ", [](T a, T b) { return !(a < b || a > b); });
    add("neu", [](T a, T b) { return a != b; });
    add("ltu", [](T a, T b) { return !(a >= b); });
    add("leu", [](T a, T b) { return !(a > b); });
    add("gtu", [](T a, T b) { return !(a <= b); });
    add("geu", [](T a, T b) { return !(a < b); });
  }
}

template <class T>
void add_moves(Table& table, const std::string& type) {
  table["mov" + type] = operation<T, T>([](T a) { return a; });
  table["selp" + type] = {select<T>, sizeof(T), {sizeof(T), sizeof(T), kPredicateBytes}};
}

template <class T>
void add_bits(Table& table, const std::string& type) {
  table["and" + type] = operation<T, T, T>([](T a, T b) { return static_cast<T>(a & b); });
  table["or" + type] = operation<T, T, T>([](T a, T b) { return static_cast<T>(a | b); });
  table["xor" + type] = operation<T, T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
  table["not" + type] = operation<T, T>([](T a) { return static_cast<T>(~a); });
  table["shl" + type] = operation<T, T, uint32_t>([](T a, uint32_t by) { return shifted_left(a, by); });
}

template <class T>
void add_integers(Table& table, const std::string& type) {
  using U = Unsigned<T>;
  table["add" + type] = operation<U, U, U>([](U a, U b) { return static_cast<U>(a + b); });
  table["sub" + type] = operation<U, U, U>([](U a, U b) { return static_cast<U>(a - b); });
  table["mul.lo" + type] = operation<U, U, U>([](U a, U b) { return product(a, b); });
  table["mad.lo" + type] =
      operation<U, U, U, U>([](U a, U b, U c) { return static_cast<U>(product(a, b) + c); });
  table["mul.hi" + type] = operation<T, T, T>([](T a, T b) { return high_product(a, b); });
  table["min" + type] = operation<T, T, T>([](T a, T b) { return std::min(a, b); });
  table["max" + type] = operation<T, T, T>([](T a, T b) { return std::max(a, b); });
  table["neg" + type] = operation<U, U>([](U a) { return static_cast<U>(U{0} - a); });
  table["abs" + type] =
      operation<T, T>([](T a) { return a < T{0} ? static_cast<T>(U{0} - static_cast<U>(a)) : a; });
  table["shr" + type] = operation<T, T, uint32_t>([](T a, uint32_t by) { return shifted_right(a, by); });
  table["div" + type] = {divide<T, quotient<T>>, sizeof(T), {sizeof(T), sizeof(T)}};
  table["rem" + type] = {divide<T, remainder<T>>, sizeof(T), {sizeof(T), sizeof(T)}};
  add_comparisons<T>(table, type);
}

template <class T>
void add_floats(Table& table, const std::string& type) {
  table["add.rn" + type] = operation<T, T, T>([](T a, T b) { return canonical(a + b); });
  table["sub.rn" + type] = operation<T, T, T>([](T a, T b) { return canonical(a - b); });
  table["mul.rn" + type] = operation<T, T, T>([](T a, T b) { return canonical(a * b); });
  table["div.rn" + type] = operation<T, T, T>([](T a, T b) { return canonical(a / b); });
  table["fma.rn" + type] = operation<T, T, T, T>([](T a, T b, T c) { return canonical(std::fma(a, b, c)); });
  table["neg" + type] = operation<T, T>([](T a) { return -a; });
  table["abs" + type] = operation<T, T>([](T a) { return std::fabs(a); });
  table["copysign" + type] = operation<T, T, T>([](T sign, T value) { return std::copysign(value, sign); });
  table["cvt.rni" + type + type] = operation<T, T>([](T a) { return canonical(std::nearbyint(a)); });
  table["cvt.rzi" + type + type] = operation<T, T>([](T a) { return canonical(std::trunc(a)); });
  table["cvt.rmi" + type + type] = operation<T, T>([](T a) { return canonical(std::floor(a)); });
  add_moves<T>(table, type);
  add_comparisons<T>(table, type);
}

template <class To, class From>
void add_conversion(Table& table, const std::string& to, const std::string& from) {
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    table["cvt" + to + from] = conversion<To, From>([](From a) { return static_cast<To>(a); });
  } else if constexpr (std::is_integral_v<From>) {
    table["cvt.rn" + to + from] = conversion<To, From>([](From a) { return static_cast<To>(a); });
  } else {
    table["cvt.rzi" + to + from] = conversion<To, From>([](From a) { return saturated<To>(std::trunc(a)); });
    table["cvt.rni" + to + from] =
        conversion<To, From>([](From a) { return saturated<To>(std::nearbyint(a)); });
    table["cvt.rmi" + to + from] = conversion<To, From>([](From a) { return saturated<To>(std::floor(a)); });
  }
}

template <class From>
void add_conversions_to_integers(Table& table, const std::string& from) {
  if constexpr (std::is_integral_v<From>) add_conversion<uint16_t, From>(table, ".u16", from);
  add_conversion<uint32_t, From>(table, ".u32", from);
  add_conversion<int32_t, From>(table, ".s32", from);
  add_conversion<uint64_t, From>(table, ".u64", from);
  add_conversion<int64_t, From>(table, ".s64", from);
}

template <class From>
void add_conversions_of_integers(Table& table, const std::string& from) {
  add_conversions_to_integers<From>(table, from);
  add_conversion<float, From>(table, ".f32", from);
  add_conversion<double, From>(table, ".f64", from);
}

void add_conversions(Table& table) {
  add_conversions_of_integers<uint16_t>(table, ".u16");
  add_conversions_of_integers<int16_t>(table, ".s16");
  add_conversions_of_integers<uint32_t>(table, ".u32");
  add_conversions_of_integers<int32_t>(table, ".s32");
  add_conversions_of_integers<uint64_t>(table, ".u64");
  add_conversions_of_integers<int64_t>(table, ".s64");
  add_conversions_to_integers<float>(table, ".f32");
  add_conversions_to_integers<double>(table, ".f64");
  table["cvt.f64.f32"] = operation<double, float>([](float a) { return canonical(double{a}); });
  table["cvt.rn.f32.f64"] =
      operation<float, double>([](double a) { return canonical(static_cast<float>(a)); });
  // Halves lie in registers as bits.
  table["cvt.f32.f16"] =
      operation<float, uint16_t>([](uint16_t a) { return canonical(aclgrad::to_float(Half{a})); });
  table["cvt.rn.f16.f32"] = operation<uint16_t, float>(
      [](float a) { return a == a ? aclgrad::from_float<Half>(a).bits : uint16_t{0x7FFF}; });
  table["cvt.rn.bf16.f32"] = operation<uint16_t, float>(
      [](float a) { return a == a ? aclgrad::from_float<BFloat16>(a).bits : uint16_t{0x7FFF}; });
}

void add_predicates(Table& table) {
  constexpr uint8_t kBytes = kPredicateBytes;
  table["and.pred"] = {combine<false>, kBytes, {kBytes, kBytes}};
  table["or.pred"] = {combine<true>, kBytes, {kBytes, kBytes}};
  table["xor.pred"] = {exclusive_or, kBytes, {kBytes, kBytes}};
  table["not.pred"] = {invert, kBytes, {kBytes}};
  table["mov.pred"] = {move_predicate, kBytes, {kBytes}};
}

Table make_table() {
  Table table;
  for (const char* type : {".b16", ".u16"}) add_moves<uint16_t>(table, type);
  for (const char* type : {".b32", ".u32", ".s32"}) add_moves<uint32_t>(table, type);
  for (const char* type : {".b64", ".u64", ".s64"}) add_moves<uint64_t>(table, type);
  add_bits<uint16_t>(table, ".b16");
  add_bits<uint32_t>(table, ".b32");
  add_bits<uint64_t>(table, ".b64");
  add_integers<int16_t>(table, ".s16");
  add_integers<uint16_t>(table, ".u16");
  add_integers<int32_t>(table, ".s32");
  add_integers<uint32_t>(table, ".u32");
  add_integers<int64_t>(table, ".s64");
  add_integers<uint64_t>(table, ".u64");
  add_comparisons<uint16_t>(table, ".b16");
  add_comparisons<uint32_t>(table, ".b32");
  add_comparisons<uint64_t>(table, ".b64");
  table["mul.wide.s32"] =
      operation<int64_t, int32_t, int32_t>([](int32_t a, int32_t b) { return int64_t{a} * b; });
  table["mul.wide.u32"] =
      operation<uint64_t, uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return uint64_t{a} * b; });
  for (const char* type : {".s64", ".u64"}) {
    constexpr uint8_t kBytes = 8;
    const auto add = [&](const char* name, Run run) {
      table[name + std::string(type)] = {run, kBytes, {kBytes, kBytes}};
    };
    add("add.cc", add_with_carry<false, false>);
    add("addc.cc", add_with_carry<false, true>);
    add("addc", add_with_carry<false, true>);
    add("sub.cc", add_with_carry<true, false>);
    add("subc.cc", add_with_carry<true, true>);
    add("subc", add_with_carry<true, true>);
  }
  add_floats<float>(table, ".f32");
  add_floats<double>(table, ".f64");
  table["fma.rz.f32"] = operation<float, float, float, float>(
      [](float a, float b, float c) { return fma_towards_zero(a, b, c); });
  table["div.approx.f32"] =
      operation<float, float, float>([](float a, float b) { return divided_approximately(a, b); });
  table["rcp.approx.ftz.f32"] =
      operation<float, float>([](float a) { return canonical(flushed(1.0f / flushed(a))); });
  add_conversions(table);
  add_predicates(table);
  table["cvta.to.global.u64"] = operation<uint64_t, uint64_t>([](uint64_t a) { return a; });
  table["clz.b32"] =
      operation<uint32_t, uint32_t>([](uint32_t a) { return static_cast<uint32_t>(std::countl_zero(a)); });
  table["shfl.sync.idx.b32"] = {exchange<true>, 4, {4, 4, 4, 4}, nullptr, Kind::shuffle};
  table["shfl.sync.bfly.b32"] = {exchange<false>, 4, {4, 4, 4, 4}, nullptr, Kind::shuffle};
  table["match.any.sync.b32"] = {match, 4, {4, 4}, nullptr, Kind::shuffle};
  table["vote.sync.ballot.b32"] = {vote, 4, {kPredicateBytes, 4}, nullptr, Kind::shuffle};
  table["prmt.b32"] = operation<uint32_t, uint32_t, uint32_t, uint32_t>(
      [](uint32_t a, uint32_t b, uint32_t selector) { return permuted_bytes(a, b, selector); });
  table["bfi.b32"] = operation<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>(
      [](uint32_t bits, uint32_t into, uint32_t first, uint32_t count) {
        return inserted_bits(bits, into, first, count);
      });
  table["popc.b32"] =
      operation<uint32_t, uint32_t>([](uint32_t a) { return static_cast<uint32_t>(std::popcount(a)); });
  return table;
}

}  // namespace

const Operation* find_operation(std::string_view opcode) {
  static const Table& table = *new Table(make_table());
  const auto found = table.find(std::string(opcode));
  return found == table.end() ? nullptr : &found->second;
}

// Only where the whole warp meets: after barriers of fewer lanes, races are found where there are none.
void meet(Warp& warp, const Instruction& in, Lanes active) {
  bool is_of_all = active == kAllLanes;
  for_each_lane(active, [&](int lane) { is_of_all &= warp.value(in.from[0], lane) == kAllLanes; });
  if (is_of_all) Grid::running()->begin_interval();
}

void join_parts(Warp& warp, const Instruction& in, Lanes active) {
  Lanes defined = kAllLanes;
  for (const Operand& part : in.from) defined &= warp.defined(part);
  for_each_lane(active, [&](int lane) {
    uint64_t bits = 0;
    for (size_t i = 0; i < in.from.size(); ++i) bits |= warp.value(in.from[i], lane) << (8 * in.bytes * i);
    warp.set_value(in.to[0], lane, bits);
  });
  warp.mark(in.to[0], active, defined);
}

void split_parts(Warp& warp, const Instruction& in, Lanes active) {
  const Lanes defined = warp.defined(in.from[0]);
  for_each_lane(active, [&](int lane) {
    const uint64_t bits = warp.value(in.from[0], lane);
    for (size_t i = 0; i < in.to.size(); ++i) {
      if (in.to[i].exists()) warp.set_value(in.to[i], lane, bits >> (8 * in.bytes * i));
    }
  });
  for (const Operand& part : in.to) {
    if (part.exists()) warp.mark(part, active, defined);
  }
}

}  // namespace ptx
