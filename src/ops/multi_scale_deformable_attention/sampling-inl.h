// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The sample points of a head, prepared a block at a time: which rows of value each point touches, with which
// weights.
//
// Included by hwy/foreach_target.h, once for each instruction set.
#if defined(ACLGRAD_MSDA_SAMPLING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACLGRAD_MSDA_SAMPLING_INL_H_
#undef ACLGRAD_MSDA_SAMPLING_INL_H_
#else
#define ACLGRAD_MSDA_SAMPLING_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/past_caches-inl.h"
#include "base/simd-inl.h"
#include "ops/multi_scale_deformable_attention/head.h"

HWY_BEFORE_NAMESPACE();
namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE {

using namespace aclgrad::HWY_NAMESPACE;

inline constexpr int64_t kBlockPoints = 64;

using IntTag = hn::RebindToSigned<FloatTag>;

// ---- Runs of elements

// Copies a few elements. Inline, because a call of memcpy costs more than such a copy.
template <class T>
HWY_INLINE void copy_short(const T* from, int64_t count, T* to) {
  const auto* source = reinterpret_cast<const char*>(from);
  auto* target = reinterpret_cast<char*>(to);
  auto bytes = static_cast<size_t>(count) * sizeof(T);
  for (; bytes >= 16; bytes -= 16, source += 16, target += 16) std::memcpy(target, source, 16);
  for (; bytes >= 4; bytes -= 4, source += 4, target += 4) std::memcpy(target, source, 4);
  if (bytes == 2) std::memcpy(target, source, 2);
}

// Widens the runs of some queries to contiguous floats, at most 2 * kBlockPoints of them.
template <class T>
HWY_INLINE void read_runs(const Runs<const T>& runs, int64_t first_query, int64_t queries, float* to) {
  HWY_ALIGN T narrow[2 * kBlockPoints];
  T* copy = narrow;
  if constexpr (std::is_same_v<T, float>) copy = to;
  for (int64_t q = 0; q < queries; ++q)
    copy_short(runs.of(first_query + q), runs.length, copy + q * runs.length);
  if constexpr (!std::is_same_v<T, float>) {
    for (int64_t i = 0; i < queries * runs.length; i += kLanes) store(load(narrow + i), to + i);
  }
}

// Whether all runs are whole chunks that go past the caches.
template <class T>
bool go_past_caches(const Runs<T>& runs) {
  return LineWriter<T>::writes(runs.first, runs.stride) && runs.length % 16 == 0;
}

// Rounds a chunk of which `left` channels are left in the output, or past the caches, which have no use for it.
template <class T>
HWY_INLINE void store_chunk(const Float16Lanes& chunk, T* to, int64_t left, bool past_caches,
                            LineWriter<T>& writer) {
  if (past_caches) {
    writer.write16(chunk, to);
  } else if (left >= kChunkChannels) {
    store16(chunk, to);
  } else {
    store16(chunk, to, static_cast<size_t>(left));
  }
}

// Asks for the runs of some queries: they lie too far apart for the processor to foresee.
template <CacheLevel kLevel = kFirstLevel, class T>
HWY_INLINE void prefetch_runs(const Runs<T>& runs, int64_t first_query, int64_t last_query) {
  const int64_t bytes = runs.length * static_cast<int64_t>(sizeof(T));
  for (int64_t q = first_query; q < last_query; ++q) prefetch_lines<kLevel>(runs.of(q), bytes);
}

// Rounds contiguous floats to the runs of some queries. Whole chunks go past the caches: to fetch their lines first takes
// longer than a block of samples.
template <class T>
HWY_INLINE void write_runs(const float* from, const Runs<T>& runs, int64_t first_query, int64_t queries,
                           int64_t last_query) {
  if (go_past_caches(runs)) {
    for (int64_t q = 0; q < queries; ++q) {
      LineWriter<T> writer;
      for (int64_t i = 0; i < runs.length; i += 16)
        writer.write16(load16(from + q * runs.length + i), runs.of(first_query + q) + i);
      writer.finish();
    }
    return;
  }
  prefetch_runs(runs, first_query + queries, std::min(first_query + 2 * queries, last_query));
  HWY_ALIGN T narrow[2 * kBlockPoints];
  const T* copy = narrow;
  if constexpr (std::is_same_v<T, float>) copy = from;
  if constexpr (!std::is_same_v<T, float>) {
    for (int64_t i = 0; i < queries * runs.length; i += kLanes) store(load(from + i), narrow + i);
  }
  for (int64_t q = 0; q < queries; ++q)
    copy_short(copy + q * runs.length, runs.length, runs.of(first_query + q));
}

// ---- Points

// Up to kBlockPoints points of one head, those of a query together. Corners are numbered 2 * dy + dx.
struct Samples {
  // The level of each point.
  HWY_ALIGN float width[kBlockPoints];
  HWY_ALIGN float height[kBlockPoints];
  HWY_ALIGN int32_t start[kBlockPoints];  // first row

  HWY_ALIGN float location[2 * kBlockPoints];  // x, y
  HWY_ALIGN float attention[kBlockPoints];     // becomes 0 where the point does not count
  HWY_ALIGN float x_fraction[kBlockPoints];    // distance from the corners at the left
  HWY_ALIGN float y_fraction[kBlockPoints];    // distance from the corners above
  HWY_ALIGN float weight[4][kBlockPoints];     // attention * bilinear weight of each corner that counts, or 0
  HWY_ALIGN int64_t row[4][kBlockPoints];      // of each corner; where it does not count, HeadTask::outside
  HWY_ALIGN int32_t is_interior[kBlockPoints];  // not 0: all four corners count
};

HWY_INLINE void store_rows(hn::Vec<IntTag> rows, int64_t* to) {
  const hn::Half<IntTag> half;
  const hn::Rebind<int64_t, hn::Half<IntTag>> wide;
  hn::StoreU(hn::PromoteTo(wide, hn::LowerHalf(half, rows)), wide, to);
  hn::StoreU(hn::PromoteTo(wide, hn::UpperHalf(half, rows)), wide, to + hn::Lanes(wide));
}

// From level, location and attention of regular levels, the rest: LevelPoint and Level::row_of for many points at once.
inline void prepare_regular(int64_t count, int64_t outside_row, Samples& samples) {
  const FloatTag floats;
  const IntTag integers;
  const auto half = hn::Set(floats, 0.5f);
  const auto one = hn::Set(floats, 1.0f);
  const auto minus_one = hn::Set(floats, -1.0f);
  const auto next = hn::Set(integers, 1);
  const auto none = hn::Set(integers, -1);
  const auto outside = hn::Set(integers, static_cast<int32_t>(outside_row));
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto width = hn::Load(floats, samples.width + i);
    const auto height = hn::Load(floats, samples.height + i);
    FloatVector x, y;
    hn::LoadInterleaved2(floats, samples.location + 2 * i, x, y);
    x = hn::Sub(hn::Mul(x, width), half);
    y = hn::Sub(hn::Mul(y, height), half);
    const auto counts = hn::And(hn::And(hn::Gt(x, minus_one), hn::Gt(y, minus_one)),
                                hn::And(hn::Lt(x, width), hn::Lt(y, height)));
    x = hn::IfThenElseZero(counts, x);
    y = hn::IfThenElseZero(counts, y);
    const auto left = hn::Floor(x);
    const auto top = hn::Floor(y);
    x = hn::Sub(x, left);
    y = hn::Sub(y, top);
    hn::Store(x, floats, samples.x_fraction + i);
    hn::Store(y, floats, samples.y_fraction + i);

    const auto attention = hn::IfThenElseZero(counts, hn::Load(floats, samples.attention + i));
    const auto above = hn::Mul(hn::Sub(one, y), attention);
    const auto below = hn::Mul(y, attention);
    hn::Store(attention, floats, samples.attention + i);

    const auto column = hn::ConvertTo(integers, left);
    const auto line = hn::ConvertTo(integers, top);
    const auto columns = hn::ConvertTo(integers, width);
    const auto lines = hn::ConvertTo(integers, height);
    const auto start = hn::Load(integers, samples.start + i);
    const auto has_any = hn::RebindMask(integers, counts);
    const auto has_left = hn::And(has_any, hn::Gt(column, none));
    const auto has_right = hn::And(has_any, hn::Lt(hn::Add(column, next), columns));
    const auto has_top = hn::Gt(line, none);
    const auto has_bottom = hn::Lt(hn::Add(line, next), lines);
    const auto row = hn::Add(hn::Add(hn::Mul(line, columns), column), start);
    const auto row_below = hn::Add(row, columns);
    const auto set_corner = [&](int corner, auto counts_too, auto pixel, FloatVector weight) HWY_ATTR {
      hn::Store(hn::IfThenElseZero(hn::RebindMask(floats, counts_too), weight), floats,
                samples.weight[corner] + i);
      store_rows(hn::IfThenElse(counts_too, pixel, outside), samples.row[corner] + i);
    };
    set_corner(0, hn::And(has_left, has_top), row, hn::Mul(hn::Sub(one, x), above));
    set_corner(1, hn::And(has_right, has_top), hn::Add(row, next), hn::Mul(x, above));
    set_corner(2, hn::And(has_left, has_bottom), row_below, hn::Mul(hn::Sub(one, x), below));
    set_corner(3, hn::And(has_right, has_bottom), hn::Add(row_below, next), hn::Mul(x, below));
    const auto interior = hn::And(hn::And(has_left, has_right), hn::And(has_top, has_bottom));
    hn::Store(hn::VecFromMask(integers, interior), integers, samples.is_interior + i);
  }
}

// The same for one point of any level. No pixel is trusted to lie in [0, rows).
inline void prepare_irregular(const Level& level, int64_t rows, int64_t outside_row, int64_t i,
                              Samples& samples) {
  const LevelPoint point(level, samples.location + 2 * i);
  samples.is_interior[i] = 0;
  samples.x_fraction[i] = point.x_fraction;
  samples.y_fraction[i] = point.y_fraction;
  if (!point.counts) samples.attention[i] = 0;
  for (int corner = 0; corner < 4; ++corner) {
    const int dx = corner % 2;
    const int dy = corner / 2;
    const int64_t row = point.counts ? level.row_of(static_cast<int64_t>(point.top) + dy,
                                                    static_cast<int64_t>(point.left) + dx, rows)
                                     : -1;
    const float attention = (dy == 1 ? point.y_fraction : 1 - point.y_fraction) * samples.attention[i];
    samples.weight[corner][i] = row < 0 ? 0 : (dx == 1 ? point.x_fraction : 1 - point.x_fraction) * attention;
    samples.row[corner][i] = row < 0 ? outside_row : row;
  }
}

// A block: the points [first_point, first_point + points) of each of some queries. The points of a query are
// numbered through all levels.
struct Block {
  int64_t first_query;
  int64_t queries;
  int64_t first_point;
  int64_t points;
};

// Reads a block's locations and attention weights, asks for those of the next `next_queries` queries, and prepares the
// points. Not inline, nor is what else happens once a block: a copy in each kernel doubles the code and gains nothing.
template <class T>
HWY_NOINLINE void read_samples(const MultiScaleDeformableSampling& problem, const HeadTask& task,
                               const Block& block, int64_t next_queries, bool is_regular, Samples& samples) {
  const auto [query, queries, point, points] = block;
  const auto location = runs_of<T>(problem.sampling_locations, task, 2 * point, 2 * points);
  const auto attention = runs_of<T>(problem.attention_weights, task, point, points);
  const int64_t next_query = query + queries;
  const int64_t last_next_query = std::min(next_query + next_queries, task.last_query);
  prefetch_runs(location, next_query, last_next_query);
  prefetch_runs(attention, next_query, last_next_query);
  read_runs<T>(location, query, queries, samples.location);
  read_runs<T>(attention, query, queries, samples.attention);
  if (is_regular) return prepare_regular(queries * points, task.outside, samples);
  for (int64_t i = 0; i < queries * points; ++i)
    prepare_irregular(Level(problem, (point + i % points) / problem.samples()), problem.rows(), task.outside,
                      i, samples);
}

// Prepares the points of a task in blocks and calls body(block, samples) for each. Those of a query that do
// not fit one block come in consecutive blocks. kBlocks blocks are prepared before the body of the first of them, and
// expect(block, samples) is called as soon as one is.
template <class T, size_t kBlocks, class Expect, class Body>
HWY_INLINE void for_each_block(const MultiScaleDeformableSampling& problem, const HeadTask& task,
                               Expect&& expect, Body&& body) {
  const int64_t first_point = task.first_level * problem.samples();
  const int64_t last_point = task.last_level * problem.samples();
  const int64_t points_per_block = std::min(kBlockPoints, last_point - first_point);
  const int64_t queries_per_block = kBlockPoints / points_per_block;
  Samples samples[kBlocks] = {};
  Block blocks[kBlocks];
  bool is_regular = true;
  const auto set_levels = [&](const Block& block, Samples& of_block) {
    is_regular = true;
    for (int64_t i = 0; i < queries_per_block * block.points; ++i) {
      const Level level(problem, (block.first_point + i % block.points) / problem.samples());
      of_block.width[i] = static_cast<float>(level.width);
      of_block.height[i] = static_cast<float>(level.height);
      of_block.start[i] = static_cast<int32_t>(level.start);
      is_regular = is_regular && level.is_regular(problem.rows());
    }
  };
  int64_t query = task.first_query;
  int64_t point = first_point;
  for (size_t prepared = 0, done = 0; query < task.last_query || done < prepared;) {
    if (query < task.last_query) {
      const Block block{query, std::min(queries_per_block, task.last_query - query), point,
                        std::min(points_per_block, last_point - point)};
      Samples& of_block = samples[prepared % kBlocks];
      blocks[prepared % kBlocks] = block;
      if (prepared < kBlocks || block.points < last_point - first_point) set_levels(block, of_block);
      read_samples<T>(problem, task, block, queries_per_block, is_regular, of_block);
      expect(block, of_block);
      point += block.points;
      if (point == last_point) {
        point = first_point;
        query += queries_per_block;
      }
      if (++prepared - done < kBlocks) continue;
    }
    body(blocks[done % kBlocks], samples[done % kBlocks]);
    ++done;
  }
}

// The same, one block after the other.
template <class T, class Body>
HWY_INLINE void for_each_block(const MultiScaleDeformableSampling& problem, const HeadTask& task,
                               Body&& body) {
  for_each_block<T, 1>(
      problem, task, [](const Block&, const Samples&) {}, body);
}

}  // namespace aclgrad::ops::multi_scale_deformable_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
