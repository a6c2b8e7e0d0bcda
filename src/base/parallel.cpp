#include "base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/environment.h"

namespace aclgrad {
namespace {

int starting_thread_count() {
  const int wanted = Environment::get().num_threads;
  return wanted > 0 ? wanted : tbb::this_task_arena::max_concurrency();
}

std::atomic<int> requested_threads{0};

// The arena of the current thread count. A call keeps the arena that it started with alive, so that the count
// may change at any time. Never destroyed: kernels may still run while the process exits.
std::shared_ptr<tbb::task_arena> arena_of(int threads) {
  struct State {
    std::mutex mutex;
    std::shared_ptr<tbb::task_arena> arena;
    std::unique_ptr<tbb::global_control> more_threads_than_processors;
    int threads = 0;
  };
  static State& state = *new State;
  std::lock_guard lock(state.mutex);
  if (state.arena == nullptr || state.threads != threads) {
    if (threads > tbb::this_task_arena::max_concurrency()) {
      state.more_threads_than_processors = std::make_unique<tbb::global_control>(
          tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    }
    state.arena = std::make_shared<tbb::task_arena>(threads);
    state.threads = threads;
  }
  return state.arena;
}

}  // namespace

int thread_count() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  if (requested > 0) return requested;
  static const int starting = starting_thread_count();
  return starting;
}

void set_thread_count(int count) {
  requested_threads.store(count, std::memory_order_relaxed);
}

namespace detail {

void run_parallel(int64_t count, void (*body)(const void*, int64_t), const void* context) {
  const auto arena = arena_of(thread_count());
  // Isolated: a thread that waits for its own loop must not pick up another stream's work, which would make a
  // small operator last as long as a large one beside it.
  arena->execute([&] {
    tbb::this_task_arena::isolate(
        [&] { tbb::parallel_for(int64_t{0}, count, [&](int64_t i) { body(context, i); }); });
  });
}

}  // namespace detail
}  // namespace aclgrad
